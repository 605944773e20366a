# What tests are made with.
#
#   hak_add_gtest(NAME SOURCES file...)   a GoogleTest program; each of its cases is one test of ctest
#   hak_add_test(NAME COMMAND word...)    a command; exit code 77 means skipped
#   hak_add_helper(NAME SOURCES file...)  a program or library that tests start or load
#
# A test carries its directory's name as a label (unit, api, death, ...), so
# `ctest -L '^api$'` runs one kind; the label `long` if `make test-quick` goes
# without it; and the label `preload`, which is left out there, too, if it runs
# with the library preloaded. What takes long and depends on little that a commit
# changes is run in turns, of which `make test` takes the one that the last commit
# chooses, and `make test-all` all: such a test has the label `turn-0`, `turn-1`, ...
#
# No test takes more than 20 s on a machine that does nothing else, 60 s in the
# emulator: what would is split, so that its parts run side by side. The limit is a
# watchdog against hangs, at ten times as much.
#
# GoogleTest is built from the sources that Debian's package `googletest` installs
# where the compiled one of `libgtest-dev` does not fit: a cross or sanitizer build,
# and one for musl, need a copy of their own.
include_guard(GLOBAL)
include(GoogleTest)

set(HAK_TEST_TURNS 8) # tests/run reads it here

set(HAKMEM_GOOGLETEST_SOURCE /usr/src/googletest CACHE PATH "GoogleTest's source tree")

if(CMAKE_CROSSCOMPILING)
  set(HAK_TEST_TIMEOUT 600)
else()
  set(HAK_TEST_TIMEOUT 200)
endif()
# Of what a test starts: early enough that the test can say what hung.
math(EXPR HAK_TEST_WATCHDOG "${HAK_TEST_TIMEOUT} - 20")

# The library that tests use when they do not say which: the one that serves
# malloc, or, where the sanitizer's runtime owns malloc, the hak_ functions alone.
# (hakmem_core is also for tests that need what the libraries hide.)
if(HAKMEM_SANITIZE)
  set(HAK_TEST_LIBRARY hakmem_core)
else()
  set(HAK_TEST_LIBRARY hakmem_shared)
endif()

# Flags of everything below. The compiler must not fold away or merge the very
# calls under test, nor warn of the misuse that some commit on purpose.
# They are optimised less than the library, and know of their lines only: that halves
# the time that they take to compile. Where each of their instructions costs as much as
# ten, under a sanitizer and in the emulator, they are optimised a little, and what stresses
# is everywhere (WORKS).
add_library(hak_test_flags INTERFACE)
target_compile_features(hak_test_flags INTERFACE cxx_std_17)
target_compile_options(hak_test_flags INTERFACE
  -fno-builtin $<IF:$<BOOL:$<TARGET_PROPERTY:HAK_UNOPTIMISED>>,-O0,-O1> -g1 -Wall -Wextra
  $<$<COMPILE_LANG_AND_ID:C,GNU>:-Wno-alloc-size-larger-than -Wno-free-nonheap-object -Wno-use-after-free>
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-alloc-size-larger-than -Wno-free-nonheap-object -Wno-use-after-free -Wno-mismatched-new-delete>
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fsized-deallocation>)
target_include_directories(hak_test_flags INTERFACE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
target_compile_definitions(hak_test_flags INTERFACE
  _GNU_SOURCE HAK_TEST_WATCHDOG=${HAK_TEST_WATCHDOG} $<$<BOOL:${CMAKE_CROSSCOMPILING}>:HAK_TEST_EMULATED>)
if(HAKMEM_SANITIZE OR CMAKE_CROSSCOMPILING)
  set(HAK_TEST_UNOPTIMISED OFF)
else()
  set(HAK_TEST_UNOPTIMISED ON)
endif()
if(HAKMEM_SANITIZE)
  target_compile_options(hak_test_flags INTERFACE -fsanitize=${HAKMEM_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(hak_test_flags INTERFACE -fsanitize=${HAKMEM_SANITIZE})
endif()
find_package(Threads REQUIRED)
target_link_libraries(hak_test_flags INTERFACE Threads::Threads ${CMAKE_DL_LIBS})

if(NOT HAKMEM_SANITIZE AND NOT CMAKE_CROSSCOMPILING AND NOT HAKMEM_MUSL)
  find_package(GTest CONFIG QUIET)
endif()
if(GTest_FOUND)
  add_library(gtest ALIAS GTest::gtest)
  add_library(gtest_main ALIAS GTest::gtest_main)
else()
  if(NOT EXISTS ${HAKMEM_GOOGLETEST_SOURCE}/CMakeLists.txt)
    message(FATAL_ERROR "GoogleTest's sources are not in ${HAKMEM_GOOGLETEST_SOURCE}: "
      "apt-get install googletest, or set HAKMEM_GOOGLETEST_SOURCE")
  endif()
  set(BUILD_GMOCK OFF CACHE INTERNAL "")
  set(INSTALL_GTEST OFF CACHE INTERNAL "")
  set(CMAKE_WARN_DEPRECATED OFF CACHE INTERNAL "")
  add_subdirectory(${HAKMEM_GOOGLETEST_SOURCE} ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
  foreach(library gtest gtest_main)
    target_compile_options(${library} PRIVATE -w -O0 -g0) # nothing of it is hot
    set_target_properties(${library} PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)
    if(HAKMEM_SANITIZE)
      target_compile_options(${library} PRIVATE -fsanitize=${HAKMEM_SANITIZE})
    endif()
  endforeach()
endif()

# GoogleTest's header, parsed once for all. What a program defines besides must not matter to it.
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cc CONTENT "int main() {}\n")
add_executable(hak_test_precompiled EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cc)
target_link_libraries(hak_test_precompiled PRIVATE hak_test_flags gtest)
set_target_properties(hak_test_precompiled PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF HAK_UNOPTIMISED ${HAK_TEST_UNOPTIMISED})
target_precompile_headers(hak_test_precompiled PRIVATE <gtest/gtest.h> <atomic> <functional> <map> <thread> <vector>)

# Labels and environment of tests that are already known by name, as CMake text.
function(hak__properties_script out tests labels cost environment serial)
  set(script "foreach(test IN ITEMS ${tests})\n  set_tests_properties(\"\${test}\" PROPERTIES")
  string(APPEND script " LABELS \"${labels}\" TIMEOUT ${HAK_TEST_TIMEOUT} COST ${cost}")
  if(environment)
    string(APPEND script " ENVIRONMENT \"${environment}\"")
  endif()
  if(serial)
    string(APPEND script " RUN_SERIAL ON")
  endif()
  string(APPEND script ")\nendforeach()\n")
  set(${out} "${script}" PARENT_SCOPE)
endfunction()

# hak_add_gtest(NAME SOURCES file...
#   [LINK library...]   instead of HAK_TEST_LIBRARY
#   [PRELOAD]           links no hakmem; runs with LD_PRELOAD=libhakmem.so
#   [SERVED]            main() of tests/support: the run fails unless hakmem serves malloc
#   [NO_MAIN]           the sources have a main() of their own
#   [SERIAL]            nothing else may run meanwhile
#   [WORKS]             what takes its time is the test itself, which is optimised, therefore
#   [FILTER pattern]    of its cases those alone
#   [LABELS word...]    besides the directory's name
#   [COST seconds]      what its longest case takes, if more than one: those start first
#   [ENV NAME=value...] [DEFINES NAME=value...] [ARGS word...]
#   [HELPERS name...])  hak_add_helper targets; HELPER_<name> is the path of each
function(hak_add_gtest name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "PRELOAD;SERVED;NO_MAIN;SERIAL;WORKS" "COST;FILTER"
    "SOURCES;LINK;LABELS;ENV;DEFINES;ARGS;HELPERS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "hak_add_gtest(${name}): what is '${arg_UNPARSED_ARGUMENTS}'?")
  endif()
  if(NOT arg_COST)
    set(arg_COST 1)
  endif()
  get_filename_component(kind ${CMAKE_CURRENT_SOURCE_DIR} NAME)

  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE hak_test_flags)
  if(arg_PRELOAD)
    list(APPEND arg_ENV "LD_PRELOAD=$<TARGET_FILE:hakmem_shared>")
    list(APPEND arg_LABELS preload)
    add_dependencies(${name} hakmem_shared)
  elseif(arg_LINK)
    target_link_libraries(${name} PRIVATE ${arg_LINK})
  else()
    target_link_libraries(${name} PRIVATE ${HAK_TEST_LIBRARY})
  endif()
  if(arg_NO_MAIN)
    target_link_libraries(${name} PRIVATE hak_test_support gtest)
  elseif(arg_SERVED)
    target_link_libraries(${name} PRIVATE hak_test_main hak_test_support gtest)
  else()
    target_link_libraries(${name} PRIVATE hak_test_support gtest_main)
  endif()
  target_compile_definitions(${name} PRIVATE ${arg_DEFINES})
  hak__helpers(${name} "${arg_HELPERS}")
  set_target_properties(${name} PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)
  list(LENGTH arg_SOURCES files)
  if(files GREATER 2)
    # Eight files at a time: what they make of GoogleTest's templates is compiled once for all of them.
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endif()
  # What is optimised otherwise cannot use the header.
  if(NOT arg_WORKS OR NOT HAK_TEST_UNOPTIMISED)
    set_target_properties(${name} PROPERTIES HAK_UNOPTIMISED ${HAK_TEST_UNOPTIMISED})
    list(FILTER arg_SOURCES INCLUDE REGEX "\\.c$")
    set_source_files_properties(${arg_SOURCES} PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
    target_precompile_headers(${name} REUSE_FROM hak_test_precompiled)
  endif()

  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    TEST_PREFIX "${name}:" NO_PRETTY_VALUES TEST_FILTER "${arg_FILTER}" EXTRA_ARGS ${arg_ARGS})
  # gtest_discover_tests loses the semicolons of a property that is a list.
  hak__properties_script(script "\${${name}_TESTS}" "${kind};${arg_LABELS}" ${arg_COST} "${arg_ENV}" "${arg_SERIAL}")
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}_properties.cmake)
  file(GENERATE OUTPUT ${file} CONTENT "${script}")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${file})
endfunction()

# hak_add_test(NAME COMMAND word...
#   [LABELS word...] [COST seconds] [ENV NAME=value...]   as above
#   [TIMEOUT seconds]   of what is no test but builds something that others need
#   [TURN number|NEXT]  run only in this turn; NEXT: the folder's tests one after the other
#   [AFTER name])       runs only after that test, and only if that did not fail; brings it along in its turn
function(hak_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "AFTER;COST;TIMEOUT;TURN" "COMMAND;LABELS;ENV")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "hak_add_test(${name}): what is '${arg_UNPARSED_ARGUMENTS}'?")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT ${HAK_TEST_TIMEOUT})
  endif()
  if(NOT arg_COST)
    set(arg_COST 1)
  endif()
  if(arg_TURN STREQUAL "NEXT")
    get_property(before DIRECTORY PROPERTY HAK_TEST_NEXT)
    set_property(DIRECTORY APPEND PROPERTY HAK_TEST_NEXT ${name})
    list(LENGTH before arg_TURN)
  endif()
  if(DEFINED arg_TURN)
    math(EXPR turn "${arg_TURN} % ${HAK_TEST_TURNS}")
    list(APPEND arg_LABELS turn-${turn})
  endif()
  get_filename_component(kind ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS "${kind};${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} COST ${arg_COST}
    ENVIRONMENT "${arg_ENV}" SKIP_RETURN_CODE 77)
  if(arg_AFTER)
    set_tests_properties(${arg_AFTER} PROPERTIES FIXTURES_SETUP ${arg_AFTER})
    set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED ${arg_AFTER})
  endif()
endfunction()

# hak_add_helper(NAME SOURCES file... [LIBRARY] [STATIC_EXE] [LINK library...] [DEFINES ...])
# Links nothing of hakmem unless LINK says so. LIBRARY: a shared object for
# dlopen or for linking; STATIC_EXE: a program without a dynamic loader.
function(hak_add_helper name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LIBRARY;STATIC_EXE" "" "SOURCES;LINK;DEFINES;HELPERS")
  if(arg_LIBRARY)
    add_library(${name} SHARED ${arg_SOURCES})
  else()
    add_executable(${name} ${arg_SOURCES})
  endif()
  target_link_libraries(${name} PRIVATE hak_test_flags ${arg_LINK})
  target_compile_definitions(${name} PRIVATE ${arg_DEFINES})
  hak__helpers(${name} "${arg_HELPERS}")
  set_target_properties(${name} PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)
  if(arg_STATIC_EXE)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_link_options(${name} PRIVATE -static)
  endif()
endfunction()

function(hak__helpers target helpers)
  foreach(helper IN LISTS helpers)
    target_compile_definitions(${target} PRIVATE HELPER_${helper}="$<TARGET_FILE:${helper}>")
    add_dependencies(${target} ${helper})
  endforeach()
endfunction()
