//! Content codings undone as the bytes come in.

use std::io::{self, Write};

use flate2::write::{MultiGzDecoder, ZlibDecoder};

/// Undoes the content coding of one body. We ask for none; some gateways compress all the same.
#[derive(Debug)]
pub(crate) enum Decoder {
    Gzip(MultiGzDecoder<Vec<u8>>),
    Deflate(ZlibDecoder<Vec<u8>>),
}

impl Decoder {
    /// A decoder for the coding of this name; `None` if it is not known.
    pub(crate) fn new(coding: &str) -> Option<Self> {
        match coding {
            "gzip" | "x-gzip" => Some(Self::Gzip(MultiGzDecoder::new(Vec::new()))),
            "deflate" => Some(Self::Deflate(ZlibDecoder::new(Vec::new()))),
            _ => None,
        }
    }

    /// Takes the next coded bytes; gives all that can be told from them.
    pub(crate) fn decode(&mut self, coded: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip(decoder) => {
                decoder.write_all(coded)?;
                decoder.flush()?;
                Ok(std::mem::take(decoder.get_mut()))
            }
            Self::Deflate(decoder) => {
                decoder.write_all(coded)?;
                decoder.flush()?;
                Ok(std::mem::take(decoder.get_mut()))
            }
        }
    }
}
