//! The decoder itself: a value and where it stands.

use std::iter::Enumerate;
use std::slice;

use base64::DecodeError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Expected, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value;

use super::{Misfit, Place, Step, Takes, names};
use crate::embedded::api::go_json;
use crate::embedded::api::validation;
use crate::sensor::go_duration::quote;

const NO_QUANTITY: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
/// What the visitors of types with a syntax of their own call themselves.
const BYTES: &str = "a base64-encoded string";
/// Go's name for them.
const BYTE_LIST: &str = "[]uint8";
const QUANTITY: &str = "Quantity";
const INT_OR_TEXT: &str = "IntOrString";

#[derive(Clone, Copy)]
enum At<'p> {
    Root,
    Field(&'p str),
    Key(&'p str),
    Item(usize),
}

/// Where a value stands.
#[derive(Clone, Copy)]
struct Spot<'p> {
    at: At<'p>,
    /// The innermost struct and its field.
    owner: &'static str,
    field: &'p str,
    above: Option<&'p Spot<'p>>,
}

const ROOT: Spot<'static> = Spot {
    at: At::Root,
    owner: "",
    field: "",
    above: None,
};

impl Spot<'_> {
    fn way(&self) -> Vec<&Spot<'_>> {
        let mut way = Vec::new();
        let mut next = Some(self);
        while let Some(spot) = next {
            way.push(spot);
            next = spot.above;
        }
        way.reverse();
        way
    }

    /// As Go tells it: the fields of structs alone.
    fn fields(&self) -> String {
        let mut fields = Vec::new();
        for spot in self.way() {
            if let At::Field(name) = spot.at {
                fields.extend(names::embedded(spot.owner, name));
                fields.push(name);
            }
        }
        fields.join(".")
    }

    fn steps(&self) -> Vec<Step> {
        let steps = self.way().into_iter().filter_map(|spot| match spot.at {
            At::Root => None,
            At::Field(name) | At::Key(name) => Some(Step::Field(name.to_owned())),
            At::Item(index) => Some(Step::Item(index)),
        });
        steps.collect()
    }
}

/// Reads one value. Without a value it finds out what its type is called: every read fails with that name.
#[derive(Clone, Copy)]
pub(super) struct Reader<'de, 'p> {
    value: Option<&'de Value>,
    spot: &'p Spot<'p>,
    /// The struct around a single value, as `Time`.
    wrapper: &'static str,
}

impl<'de> Reader<'de, 'static> {
    pub(super) fn new(value: &'de Value) -> Self {
        Reader {
            value: Some(value),
            spot: &ROOT,
            wrapper: "",
        }
    }
}

impl<'de> Reader<'de, '_> {
    fn is_null(&self) -> bool {
        self.value.is_some_and(Value::is_null)
    }

    /// What is told of a value of another type, or the name of this type where that is all that is asked.
    fn misfit(&self, takes: Takes, plain: &str) -> Misfit {
        let named = names::of(self.spot.owner, self.spot.field).filter(|_| plain != BYTE_LIST);
        let wanted = match takes {
            Takes::List => named.filter(|name| name.starts_with("[]")),
            Takes::Map => named.filter(|_| plain.starts_with("map[")),
            Takes::Text => named.map(|name| name.trim_start_matches("[]")),
            Takes::Number | Takes::Truth | Takes::Scalar | Takes::Any => None,
        };
        let wanted = wanted.unwrap_or(plain);
        let Some(value) = self.value else {
            return Misfit::told(wanted);
        };
        let found = match value {
            Value::Number(number) if plain.starts_with("int") => format!("number {number}"),
            other => go_json::word(other).to_owned(),
        };
        let plainly = format!("json: cannot unmarshal {found} into Go value of type {wanted}");
        let text = match self.spot.owner {
            "" => plainly.clone(),
            owner => go_json::said(&found, &self.spot.fields(), owner, wanted),
        };
        let converted = match takes {
            Takes::Scalar | Takes::Any => plainly,
            _ => converted(takes, value, plain),
        };
        let path = self.spot.steps();
        Misfit {
            place: Some(Box::new(Place { path, takes })),
            text,
            converted,
        }
    }

    fn whole(&self, plain: &str, least: i64, most: i64) -> Result<i64, Misfit> {
        if self.is_null() {
            return Ok(0);
        }
        let whole = self.value.and_then(Value::as_i64);
        whole
            .filter(|whole| (least..=most).contains(whole))
            .ok_or_else(|| self.misfit(Takes::Number, plain))
    }

    /// The text of an amount, which may also be written as a number.
    fn amount<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let text = match self.value {
            None => return Err(Misfit::told("resource.Quantity")),
            Some(Value::Null) => "0".to_owned(),
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::String(text)) => text.clone(),
            Some(_) => {
                return Err(Misfit {
                    text: NO_QUANTITY.to_owned(),
                    converted: NO_QUANTITY.to_owned(),
                    ..self.misfit(Takes::Scalar, "")
                });
            }
        };
        match validation::quantity(&text) {
            Some(_) => visitor.visit_string(text),
            None => Err(Misfit::told(NO_QUANTITY)),
        }
    }

    fn int_or_text<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.value {
            None => Err(Misfit::told("intstr.IntOrString")),
            Some(Value::String(text)) => visitor.visit_str(text),
            Some(_) => {
                let number = self.whole("int32", i64::from(i32::MIN), i64::from(i32::MAX));
                visitor.visit_i64(number.map_err(|_| self.misfit(Takes::Any, "int32"))?)
            }
        }
    }

    /// Go's words for a text that its type refuses.
    fn refused(&self, text: &str, told: Misfit) -> Misfit {
        match (self.wrapper, STANDARD.decode(text)) {
            ("Time", _) => no_time(text, ""),
            ("MicroTime", _) => no_time(text, ".000000"),
            (_, Err(error)) => no_bytes(text, error),
            (_, Ok(_)) => told,
        }
    }

    /// The same place, asked for the name of its type.
    fn nameless(&self) -> Self {
        Reader {
            value: None,
            ..*self
        }
    }
}

/// As the converter words it, by the kinds of Go's reflection.
fn converted(takes: Takes, value: &Value, plain: &str) -> String {
    let kind = match value {
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
        other => go_json::word(other),
    };
    match takes {
        Takes::Map if !plain.starts_with("map[") => format!("cannot restore struct from: {kind}"),
        Takes::Map => format!("cannot restore map from {kind}"),
        Takes::List => format!("cannot restore slice from {kind}"),
        _ if plain == BYTE_LIST => format!("cannot restore slice from {kind}"),
        Takes::Text if kind == "int64" => "cannot convert int64 to string".to_owned(),
        Takes::Number if value.is_number() => format!("cannot convert {kind} to {plain}"),
        _ => format!("unrecognized type: {plain}"),
    }
}

fn no_bytes(text: &str, error: DecodeError) -> Misfit {
    let at = match error {
        DecodeError::InvalidByte(at, byte) if byte != b'=' => at,
        DecodeError::InvalidLastSymbol(at, _) => at,
        _ if text.ends_with('=') => text.len(),
        _ => text.len() / 4 * 4,
    };
    let text = format!("illegal base64 data at input byte {at}");
    Misfit {
        converted: format!("error decoding from json: {text}"),
        ..Misfit::told(text)
    }
}

/// As `time.Parse` words it. `fraction` is what follows the seconds.
fn no_time(text: &str, fraction: &str) -> Misfit {
    const PIECES: [&str; 11] = [
        "2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05",
    ];
    let layout = quote(&format!("2006-01-02T15:04:05{fraction}Z07:00"));
    let (mut rest, shown) = (text, quote(text));
    for piece in PIECES.into_iter().chain([fraction]) {
        let digit = |(is, wanted): (u8, u8)| match wanted {
            b'0'..=b'9' => is.is_ascii_digit(),
            sign => is == sign,
        };
        let beginning = rest.as_bytes().iter().copied().zip(piece.bytes());
        if rest.len() < piece.len() || !beginning.clone().all(digit) {
            let why = format!("cannot parse {} as {}", quote(rest), quote(piece));
            return Misfit::told(format!("parsing time {shown} as {layout}: {why}"));
        }
        rest = rest.get(piece.len()..).unwrap_or("");
    }
    let number = |range: std::ops::Range<usize>| text.get(range).and_then(|two| two.parse().ok());
    let month = number(5..7).is_some_and(|month: u8| (1..=12).contains(&month));
    if rest.is_empty() {
        let why = "cannot parse \"\" as \"Z07:00\"";
        return Misfit::told(format!("parsing time {shown} as {layout}: {why}"));
    }
    let part = if month { "day" } else { "month" };
    Misfit::told(format!("parsing time {shown}: {part} out of range"))
}

/// What a type calls itself.
fn called<'de, V: Visitor<'de>>(visitor: &V) -> String {
    (visitor as &dyn Expected).to_string()
}

/// Go takes a list of numbers for bytes, too.
fn bytes_of(list: &[Value]) -> Option<String> {
    let bytes = list.iter().map(|one| u8::try_from(one.as_u64()?).ok());
    let bytes: Option<Vec<u8>> = bytes.collect();
    bytes.map(|bytes| STANDARD.encode(bytes))
}

impl<'de> Deserializer<'de> for Reader<'de, '_> {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match called(&visitor).as_str() {
            QUANTITY => return self.amount(visitor),
            INT_OR_TEXT => return self.int_or_text(visitor),
            _ => {}
        }
        match self.value {
            None => Err(Misfit::told("interface {}")),
            Some(value) => value
                .deserialize_any(visitor)
                .map_err(|error| Misfit::told(error.to_string())),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.value {
            Some(Value::Null) => visitor.visit_bool(false),
            Some(Value::Bool(truth)) => visitor.visit_bool(*truth),
            _ => Err(self.misfit(Takes::Truth, "bool")),
        }
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_i64(self.whole("int32", i64::from(i32::MIN), i64::from(i32::MAX))?)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_i64(self.whole("int64", i64::MIN, i64::MAX)?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.value {
            Some(Value::Null) => return visitor.visit_str(""),
            Some(Value::String(text)) => {
                let read = visitor.visit_str(text);
                return read.map_err(|told| self.refused(text, told));
            }
            _ => {}
        }
        if matches!(self.wrapper, "Time" | "MicroTime") {
            return Err(self.misfit(Takes::Scalar, "string"));
        }
        if called(&visitor) != BYTES {
            return Err(self.misfit(Takes::Text, "string"));
        }
        let list = self.value.and_then(Value::as_array);
        match list.and_then(|list| bytes_of(list)) {
            Some(text) => visitor.visit_str(&text),
            None => Err(self.misfit(Takes::Text, BYTE_LIST)),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        if self.is_null() {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        wrapper: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(Reader { wrapper, ..self })
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let items = match self.value {
            Some(Value::Array(items)) => items.as_slice(),
            Some(Value::Null) => [].as_slice(),
            _ => {
                let inner = inner(visitor.visit_seq(Nameless(self.nameless())));
                return Err(self.misfit(Takes::List, &format!("[]{inner}")));
            }
        };
        let items = items.iter().enumerate();
        visitor.visit_seq(Items { items, list: self })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.value {
            Some(Value::Object(map)) => visitor.visit_map(Fields::new(map, self, None)),
            Some(Value::Null) => visitor.visit_map(Fields::empty(self)),
            _ => {
                let inner = inner(visitor.visit_map(Nameless(self.nameless())));
                Err(self.misfit(Takes::Map, &format!("map[string]{inner}")))
            }
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        match self.value {
            Some(Value::Object(map)) => visitor.visit_map(Fields::new(map, self, Some(name))),
            Some(Value::Null) => visitor.visit_map(Fields::empty(self)),
            _ => Err(self.misfit(Takes::Map, &format!("v1.{name}"))),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier
    }
}

/// The name out of a read that had nothing to read.
fn inner<T>(read: Result<T, Misfit>) -> String {
    read.err()
        .map_or_else(|| "interface {}".to_owned(), |misfit| misfit.text)
}

/// The elements of a list.
struct Items<'de, 'p> {
    items: Enumerate<slice::Iter<'de, Value>>,
    list: Reader<'de, 'p>,
}

impl<'de> SeqAccess<'de> for Items<'de, '_> {
    type Error = Misfit;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Misfit> {
        let Some((index, value)) = self.items.next() else {
            return Ok(None);
        };
        let spot = Spot {
            at: At::Item(index),
            above: Some(self.list.spot),
            ..*self.list.spot
        };
        let item = Reader {
            value: Some(value),
            spot: &spot,
            wrapper: "",
        };
        seed.deserialize(item).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

/// The fields of a struct, or the keys of a map.
struct Fields<'de, 'p> {
    fields: Option<serde_json::map::Iter<'de>>,
    next: Option<(&'de str, &'de Value)>,
    around: Reader<'de, 'p>,
    /// The struct.
    owner: Option<&'static str>,
}

impl<'de, 'p> Fields<'de, 'p> {
    fn new(
        map: &'de serde_json::Map<String, Value>,
        around: Reader<'de, 'p>,
        owner: Option<&'static str>,
    ) -> Self {
        Fields {
            fields: Some(map.iter()),
            next: None,
            around,
            owner,
        }
    }

    fn empty(around: Reader<'de, 'p>) -> Self {
        Fields {
            fields: None,
            next: None,
            around,
            owner: None,
        }
    }
}

impl<'de> MapAccess<'de> for Fields<'de, '_> {
    type Error = Misfit;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Misfit> {
        let Some((key, value)) = self.fields.as_mut().and_then(Iterator::next) else {
            return Ok(None);
        };
        self.next = Some((key, value));
        seed.deserialize(StrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Misfit> {
        let (key, value) = self.next.take().unwrap_or(("", &Value::Null));
        let above = self.around.spot;
        let spot = match self.owner {
            Some(owner) => Spot {
                at: At::Field(key),
                owner,
                field: key,
                above: Some(above),
            },
            None => Spot {
                at: At::Key(key),
                above: Some(above),
                ..*above
            },
        };
        seed.deserialize(Reader {
            value: Some(value),
            spot: &spot,
            wrapper: "",
        })
    }
}

/// One element that is not there, for the name of its type.
struct Nameless<'de, 'p>(Reader<'de, 'p>);

impl<'de> SeqAccess<'de> for Nameless<'de, '_> {
    type Error = Misfit;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Misfit> {
        seed.deserialize(self.0).map(Some)
    }
}

impl<'de> MapAccess<'de> for Nameless<'de, '_> {
    type Error = Misfit;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Misfit> {
        seed.deserialize(StrDeserializer::new("")).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Misfit> {
        seed.deserialize(self.0)
    }
}
