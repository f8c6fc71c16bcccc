//! What is freed only when no kernel is resident.

use super::current::{Current, Module, Stream};
use super::near::{Piece, Share};
use super::pinned::Pinned;

/// Something that nobody uses any more.
#[derive(Debug)]
pub enum Grave {
    /// Memory of the device.
    Device(u64),
    /// Memory of the host that the device reaches.
    Host(Pinned),
    /// Memory of the device that the host writes.
    Near(Piece),
    /// Memory of the device that was to be so, and was refused.
    Share(Share),
    /// Code.
    Module(Module),
    /// A stream.
    Stream(Stream),
}

impl Grave {
    /// Frees it. Nobody can be told if that fails: the device is lost, and this with it.
    pub fn free(self, current: Current) {
        let _ = match self {
            Grave::Device(at) => current.free(at),
            Grave::Host(pinned) => pinned.free(current),
            Grave::Near(piece) => piece.free(current),
            Grave::Share(share) => share.free(current),
            Grave::Module(module) => current.unload(module),
            Grave::Stream(stream) => current.end_stream(stream),
        };
    }
}
