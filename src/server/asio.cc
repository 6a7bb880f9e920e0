// The one source that compiles Boost.Asio; the others only declare it
// (BOOST_ASIO_SEPARATE_COMPILATION).
#include <boost/asio/impl/src.hpp>
