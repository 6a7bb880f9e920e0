#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace decant {

/// Says that `bytes` are the file `path`, mapped: from now on a page of them that can no longer be
/// read (the file was cut short, its disk fails) ends the process with a message that names the
/// file and status 1, in place of a SIGBUS. A SIGBUS elsewhere is as fatal as ever. More than 1024
/// files at a time are not guarded.
void GuardMapping(std::span<const std::byte> bytes, std::string_view path);

/// To be called before `bytes` are unmapped.
void ForgetMapping(std::span<const std::byte> bytes);

}  // namespace decant
