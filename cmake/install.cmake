# `cmake --install`: the program, headers, static libraries, a CMake package and a pkg-config file,
# all of which may be moved together after installation.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weir)
set(rooms core time control gate limiter)

list(TRANSFORM rooms PREPEND weir_ OUTPUT_VARIABLE libraries)
install(TARGETS weir ${libraries} EXPORT weirTargets FILE_SET HEADERS)
install(EXPORT weirTargets NAMESPACE weir:: DESTINATION ${package_dir})
if(WEIR_ASIO)
  install(TARGETS weir_asio EXPORT weirAsioTargets FILE_SET HEADERS)
  install(EXPORT weirAsioTargets NAMESPACE weir:: DESTINATION ${package_dir})
endif()

if(WEIR_FLEET)
  install(TARGETS weir_net weir_redis weir_bus weir_fleet EXPORT weirFleetTargets FILE_SET HEADERS)
  install(EXPORT weirFleetTargets NAMESPACE weir:: DESTINATION ${package_dir})
endif()

if(WEIR_DAEMON)
  install(TARGETS weir_program)
endif()

configure_package_config_file(cmake/weirConfig.cmake.in weirConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(weirConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES
    ${CMAKE_CURRENT_BINARY_DIR}/weirConfig.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/weirConfigVersion.cmake
  DESTINATION ${package_dir})

# A library comes before those it needs; a room without sources has none.
set(pc_libraries "")
foreach(library IN LISTS libraries)
  get_target_property(type ${library} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    string(PREPEND pc_libraries "-l${library} ")
  endif()
endforeach()
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
  BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE pc_prefix)
configure_file(cmake/weir.pc.in weir.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weir.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
