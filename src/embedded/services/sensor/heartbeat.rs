//! The election's messages as the Sensors of Argo Events write them on the bus, so that both hear each other.
//!
//! Protocol buffers with two fields (term, node); a third one, which others skip, says that the active pod ends now.

/// What the active pod says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Heartbeat {
    pub term: u64,
    pub node: String,
    /// It ends now; nobody has to wait for its silence.
    pub resigned: bool,
}

const TERM: u64 = 1;
const NODE: u64 = 2;
const RESIGNED: u64 = 3;
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

impl Heartbeat {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.node.len() + 16);
        let varint = |out: &mut Vec<u8>, mut number: u64| {
            while number >= 0x80 {
                out.push((number & 0x7f) as u8 | 0x80);
                number >>= 7;
            }
            out.push(number as u8);
        };
        varint(&mut out, TERM << 3 | VARINT);
        varint(&mut out, self.term);
        varint(&mut out, NODE << 3 | BYTES);
        varint(&mut out, self.node.len() as u64);
        out.extend_from_slice(self.node.as_bytes());
        if self.resigned {
            varint(&mut out, RESIGNED << 3 | VARINT);
            varint(&mut out, 1);
        }
        out
    }

    /// `None` for what is no such message: anybody may publish on the subject.
    pub(super) fn read(bytes: &[u8]) -> Option<Heartbeat> {
        let mut heartbeat = Heartbeat::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let tag = varint(&mut rest)?;
            match (tag >> 3, tag & 7) {
                (field, VARINT) => {
                    let value = varint(&mut rest)?;
                    match field {
                        TERM => heartbeat.term = value,
                        RESIGNED => heartbeat.resigned = value != 0,
                        _ => {}
                    }
                }
                (field, BYTES) => {
                    let length = usize::try_from(varint(&mut rest)?).ok()?;
                    let text = take(&mut rest, length)?;
                    if field == NODE {
                        heartbeat.node = std::str::from_utf8(text).ok()?.to_owned();
                    }
                }
                (_, FIXED64) => drop(take(&mut rest, 8)?),
                (_, FIXED32) => drop(take(&mut rest, 4)?),
                _ => return None,
            }
        }
        (!heartbeat.node.is_empty()).then_some(heartbeat)
    }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *take(rest, 1)?.first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_two_fields_as_elsewhere() {
        let heartbeat = Heartbeat {
            term: 300,
            node: "pod-1".into(),
            resigned: false,
        };
        let bytes = heartbeat.write();
        assert_eq!(bytes, b"\x08\xac\x02\x12\x05pod-1");
        assert_eq!(Heartbeat::read(&bytes), Some(heartbeat.clone()));
        let last = Heartbeat {
            resigned: true,
            ..heartbeat
        };
        assert_eq!(Heartbeat::read(&last.write()), Some(last));
    }

    #[test]
    fn anything_else_is_no_heartbeat() {
        for odd in [
            &b""[..],
            b"{}",
            b"\x08",
            b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x12\x02a",
            b"\x12\x01\xff",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\x0b",
        ] {
            assert_eq!(Heartbeat::read(odd), None, "{odd:?}");
        }
    }
}
