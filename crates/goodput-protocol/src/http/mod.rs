//! HTTP/1.1 responses, sans IO: head, transfer framing, and whether the body came whole.

mod coding;
mod head;
mod response;
#[cfg(test)]
mod tests;

pub(crate) use coding::Decoder;
pub use head::{Head, MediaType};
pub use response::{HttpError, Piece, ResponseReader};
