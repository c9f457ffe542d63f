// SPDX-License-Identifier: Apache-2.0
// What nearly every test includes, parsed once for all of them where files are joined (TENON_UNITY).
// Invariant: no test counts on it; each includes what it uses, as preset dev and clang-tidy see.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <doctest/doctest.h>
