# Links against the interface of an older glibc than this system's: g++ compiles, and zig, which knows the symbols of
# every glibc, links (`pip install ziglang`). A symbol that the older glibc lacks is an error of the linker;
# old_glibc.cpp defines the few that g++'s own libraries and newer headers ask for.

find_program(FUSEWISE_ZIG NAMES zig python-zig REQUIRED)
foreach(library libstdc++.a libgcc.a libgcc_s.so.1)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${library}
    OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  list(APPEND compiler_libraries ${path})
endforeach()
list(JOIN compiler_libraries " " compiler_libraries)
# libgcc_s, which every Linux has, is newer here than glibc is there: its own symbols are the matter of its own system.
set(CMAKE_CXX_LINK_EXECUTABLE "${FUSEWISE_ZIG} cc -target x86_64-linux-gnu.${FUSEWISE_GLIBC} -Wl,--allow-shlib-undefined \
<OBJECTS> -o <TARGET> <LINK_LIBRARIES> ${compiler_libraries} -lm -lpthread -ldl -lrt")
