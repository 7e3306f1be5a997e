// Which kernels run: chosen once from the processor, or forced by name.
#pragma once

#include "kernels/panel_tile.h"

#include <string>
#include <vector>

namespace pyspec {

// Sets that this processor can run, fastest first. Never empty.
std::vector<const TileSet *> available_tile_sets();
// The fastest set for "" or "auto", else the set of that name. Throws OPTION for an unknown name, UNSUPPORTED for one
// that this processor cannot run.
const TileSet & find_tile_set(const std::string & name);

} // namespace pyspec
