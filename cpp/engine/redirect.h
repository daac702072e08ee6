// The compiler includes this before VW's own main.cc and pylibvw.cc, so that their calls by these names reach our
// functions. The headers that declare the stock functions are included first, so that only the calls are renamed.
#include "engine/initialize.h"

// NOLINTBEGIN(readability-identifier-naming): they are VW's names
#define initialize initialize_with_opo_cmab
#define merge_models merge_models_without_opo_cmab
// NOLINTEND(readability-identifier-naming)
