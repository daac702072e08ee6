// Included by force before VW's own main.cc and pylibvw.cc, which are compiled as they are: what they call of VW by
// these names is ours. Everything that declares the stock functions is included first, so that only the calls are
// renamed.
#include "engine/initialize.h"

// NOLINTBEGIN(readability-identifier-naming): they are VW's names
#define initialize initialize_with_opo_cmab
#define merge_models merge_models_without_opo_cmab
// NOLINTEND(readability-identifier-naming)
