# What `cmake --install` installs, in two components: the program with its data,
# and the libraries for programs of others. CPack makes a Debian package of the first.

include(GNUInstallDirs)

install(TARGETS fusewise RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(DIRECTORY scenarios models traces DESTINATION ${CMAKE_INSTALL_DATADIR}/fusewise COMPONENT program)
file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/*.md)  # which --help names
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_DATADIR}/fusewise/docs COMPONENT program)
# What `fusewise torch` calls. A wheel has the Python package already, as wheel.packages.
if(NOT SKBUILD)
  install(DIRECTORY python/fusewise DESTINATION ${CMAKE_INSTALL_DATADIR}/fusewise/python COMPONENT program
    PATTERN __pycache__ EXCLUDE)
  install(FILES packaging/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)  # Debian requires it
endif()
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(DIRECTORY ${PROJECT_BINARY_DIR}/cli/share/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT program)

# The libraries stand in a folder of their own, because their names are short.
set(libraries project_options sim cluster core planner scenarios)
install(TARGETS ${libraries} EXPORT fusewise-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/fusewise COMPONENT development
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fusewise)
foreach(folder sim core planner)
  install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fusewise COMPONENT development
    FILES_MATCHING PATTERN "*.hpp" PATTERN report EXCLUDE PATTERN sweep EXCLUDE)
endforeach()
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/fusewise)
install(EXPORT fusewise-targets NAMESPACE fusewise:: DESTINATION ${package_folder} COMPONENT development)
include(CMakePackageConfigHelpers)
configure_package_config_file(packaging/fusewise-config.cmake.in ${PROJECT_BINARY_DIR}/fusewise-config.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/fusewise-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/fusewise-config.cmake ${PROJECT_BINARY_DIR}/fusewise-config-version.cmake
  DESTINATION ${package_folder} COMPONENT development)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "The fusewise authors")
# A made-up address: the project has none. Who distributes a package gives theirs: cpack -D CPACK_PACKAGE_CONTACT=...
set(CPACK_PACKAGE_CONTACT "The fusewise authors <fusewise@example.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Simulates and plans data-parallel training")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "iproute2, python3")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3-torch")
include(CPack)
