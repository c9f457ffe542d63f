// SPDX-License-Identifier: Apache-2.0
// text.hpp: how the tool writes: sizes a person can read, aligned columns, colours only where they are welcome.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::tool {

// Whether `descriptor` is a terminal that wants colours: NO_COLOR is not set and TERM is not "dumb".
// [any-thread; does not block; cannot fail]
bool wants_colours(int descriptor);
// Whether `descriptor` is a terminal. [any-thread; does not block; cannot fail]
bool is_terminal(int descriptor);
// "23.4 GiB", "512 B". [any-thread; does not block; cannot fail]
std::string bytes_text(uint64_t bytes);
// Cells in columns, two spaces apart, each line indented by two; the last column is not padded.
// [any-thread; does not block; cannot fail]
std::string columns(const std::vector<std::vector<std::string>>& rows);
// Columns that `text` takes on a terminal: code points, not bytes. [any-thread; does not block; cannot fail]
size_t width(const std::string& text);
// `text`, or as much of it as `columns` hold, ending in "…". [any-thread; does not block; cannot fail]
std::string fitted(const std::string& text, size_t columns);
// The member of `known` that `given` most likely meant, or "". [any-thread; does not block; cannot fail]
std::string nearest(const std::string& given, const std::vector<std::string>& known);
// "a, b, c"; "none" when empty. [any-thread; does not block; cannot fail]
std::string listed(const std::vector<std::string>& items);

}  // namespace tenon::tool
