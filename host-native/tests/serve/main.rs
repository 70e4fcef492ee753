//! `fanlight serve` over plain sockets, on a tiny synthetic model: who may ask, how requests are framed, what
//! happens when a client leaves or takes nothing, and in which order requests are served.

mod framing;
mod leaving;
mod places;
mod server;
