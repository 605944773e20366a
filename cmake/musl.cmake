# Builds for musl with Debian's compiler and its package musl-tools:
#   cmake -B build/musl -G Ninja --toolchain cmake/musl.cmake
set(CMAKE_C_COMPILER musl-gcc)
# The kernel's headers, which musl-gcc leaves out; musl's own come before.
set(CMAKE_C_FLAGS_INIT "-idirafter /usr/include -idirafter /usr/include/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu")
# For link-time optimisation; CMake looks for musl-gcc-ar.
find_program(CMAKE_C_COMPILER_AR gcc-ar)
find_program(CMAKE_C_COMPILER_RANLIB gcc-ranlib)
# There is no C++ library for musl in Debian. The library's own C++ needs nothing of one but declarations: CMake is
# not to find out what programs in C++ are linked with, and not to add it. With -DCMAKE_CXX_COMPILER=, a compiler that
# has such a library (scripts/musl-c++ makes one), it does.
if(NOT DEFINED CMAKE_CXX_COMPILER OR CMAKE_CXX_COMPILER MATCHES "g\\+\\+$")
  set(CMAKE_CXX_COMPILER g++)
  set(CMAKE_CXX_ABI_COMPILED FALSE)
  set(CMAKE_CXX_SIZEOF_DATA_PTR 8)
endif()
# Chooses the tests.
set(HAKMEM_MUSL ON)
