# Makes the two members of libhakmem.a from relocatable objects:
#
#   cmake -DCORE=core.o -DCXX=cxx.o -DOUT_CORE=hakmem.o -DOUT_CXX=hakmem_cxx.o
#         -DNM=nm -DOBJCOPY=objcopy -P StaticLibrary.cmake
#
# C's functions are one member, C++'s operators the other: they need the program's C++
# run-time library, which a C program has not, and a linker takes a member only where
# one of its names is wanted. In both, all but the public names become local, so that
# no function of a program meets one of ours. What the second member needs of the
# first stays global, under a reserved name.
#
# SPDX-License-Identifier: MIT
cmake_minimum_required(VERSION 3.25)

function(names out)
  execute_process(COMMAND ${NM} ${ARGN} COMMAND_ERROR_IS_FATAL ANY OUTPUT_VARIABLE text)
  string(REGEX MATCHALL "[^ \n]+\n" lines "${text}")
  string(REPLACE "\n" "" lines "${lines}")
  set(${out} "${lines}" PARENT_SCOPE)
endfunction()
function(objcopy)
  execute_process(COMMAND ${OBJCOPY} ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

names(wanted --undefined-only ${CXX})
names(defined --defined-only --extern-only ${CORE})
objcopy(--localize-hidden ${CORE} ${OUT_CORE})
names(kept --defined-only --extern-only ${OUT_CORE})
set(shared "")
foreach(name IN LISTS wanted)
  if(name IN_LIST defined AND NOT name IN_LIST kept)
    string(APPEND shared "${name} hak__${name}\n")
    list(APPEND kept hak__${name})
  endif()
endforeach()
file(WRITE ${OUT_CORE}.shared "${shared}")
list(JOIN kept "\n" kept)
file(WRITE ${OUT_CORE}.kept "${kept}\n")
objcopy(--redefine-syms=${OUT_CORE}.shared ${CORE} ${OUT_CORE})
objcopy(--keep-global-symbols=${OUT_CORE}.kept ${OUT_CORE})

objcopy(--localize-hidden ${CXX} ${OUT_CXX})
names(kept --defined-only --extern-only ${OUT_CXX})
# One in a program: where the exception tables of all its objects find C++'s handler.
list(APPEND kept DW.ref.__gxx_personality_v0)
list(JOIN kept "\n" kept)
file(WRITE ${OUT_CXX}.kept "${kept}\n")
objcopy(--redefine-syms=${OUT_CORE}.shared --keep-global-symbols=${OUT_CXX}.kept ${CXX} ${OUT_CXX})
