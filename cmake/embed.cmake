# weir_embed(<target> <header> <file>...): files as string literals in a generated header, each as
# a std::pair of its name and its text in kEmbedded.
function(weir_embed target header)
  set(entries "")
  foreach(file IN LISTS ARGN)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} text)
    cmake_path(GET file FILENAME name)
    string(APPEND entries "    {\"${name}\", R\"~~(${text})~~\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT embedded/${header} @ONLY CONTENT
"#include <string_view>
#include <utility>

constexpr std::pair<std::string_view, std::string_view> kEmbedded[] = {
@entries@};
")
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
endfunction()
