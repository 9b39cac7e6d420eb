//! Protobuf's wire format: tags, varints, and length-delimited bytes.

/// A damaged body.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum WireError {
    #[error("it ends within a field")]
    Cut,
    #[error("a number is too long")]
    Varint,
    #[error("a field has an unknown wire type")]
    Type,
    #[error("a field has another wire type than its message says")]
    Mismatch,
    #[error("a text is not UTF-8")]
    Text,
}

/// One field's value as it stands on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    pub(super) fn bytes(&self) -> Result<&'a [u8], WireError> {
        match self {
            Wire::Bytes(bytes) => Ok(bytes),
            _ => Err(WireError::Mismatch),
        }
    }

    pub(super) fn text(&self) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| WireError::Text)
    }

    /// A signed integer or bool; an entry that a map left out counts as 0.
    pub(super) fn integer(&self) -> Result<i64, WireError> {
        match self {
            Wire::Varint(value) => Ok(value.cast_signed()),
            Wire::Bytes([]) => Ok(0),
            _ => Err(WireError::Mismatch),
        }
    }

    pub(super) fn double(&self) -> Result<f64, WireError> {
        match self {
            Wire::Fixed64(bits) => Ok(f64::from_bits(*bits)),
            Wire::Bytes([]) => Ok(0.0),
            _ => Err(WireError::Mismatch),
        }
    }
}

/// Reads fields one after another.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// Number and value of the next field; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Wire<'a>)>, WireError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => {
                let (bytes, rest) = self.rest.split_first_chunk::<8>().ok_or(WireError::Cut)?;
                self.rest = rest;
                Wire::Fixed64(u64::from_le_bytes(*bytes))
            }
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| WireError::Cut)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Wire::Fixed32
            }
            _ => return Err(WireError::Type),
        };
        Ok(Some((tag >> 3, value)))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(WireError::Cut)?;
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(WireError::Cut)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WireError::Varint)
    }
}
