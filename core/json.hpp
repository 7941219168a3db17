// nlohmann's JSON, whose members are compiled once, in json.cpp, and not in every file that uses them. It is
// one of the precompiled headers.

#pragma once

#include <nlohmann/json.hpp>

extern template class nlohmann::basic_json<>;
extern template class nlohmann::basic_json<nlohmann::ordered_map>;
