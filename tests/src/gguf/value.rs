//! A metadata value of any type of the specification.

/// A metadata value; strings are bytes, because token pieces need not be UTF-8.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names are those of the specification")]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(Vec<u8>),
    /// Elements of one type; `element_type` is the id of that type (it is also written for an empty array).
    Array {
        element_type: u32,
        elements: Vec<Value>,
    },
    U64(u64),
    I64(i64),
    F64(f64),
}

/// Type id of strings.
pub const TYPE_STRING: u32 = 8;
/// Type id of arrays.
pub const TYPE_ARRAY: u32 = 9;

impl Value {
    /// The id of this value's type in the file.
    pub fn type_id(&self) -> u32 {
        match self {
            Self::U8(_) => 0,
            Self::I8(_) => 1,
            Self::U16(_) => 2,
            Self::I16(_) => 3,
            Self::U32(_) => 4,
            Self::I32(_) => 5,
            Self::F32(_) => 6,
            Self::Bool(_) => 7,
            Self::String(_) => TYPE_STRING,
            Self::Array { .. } => TYPE_ARRAY,
            Self::U64(_) => 10,
            Self::I64(_) => 11,
            Self::F64(_) => 12,
        }
    }

    /// A string value.
    pub fn text(text: &str) -> Self {
        Self::String(text.as_bytes().to_vec())
    }

    /// An array of strings.
    pub fn strings<I: IntoIterator<Item = S>, S: AsRef<[u8]>>(items: I) -> Self {
        let elements = items.into_iter().map(|s| Self::String(s.as_ref().to_vec())).collect();
        Self::Array { element_type: TYPE_STRING, elements }
    }

    /// An array of i32.
    pub fn i32s(items: &[i32]) -> Self {
        Self::Array { element_type: 5, elements: items.iter().map(|&x| Self::I32(x)).collect() }
    }

    /// An array of f32.
    pub fn f32s(items: &[f32]) -> Self {
        Self::Array { element_type: 6, elements: items.iter().map(|&x| Self::F32(x)).collect() }
    }

    /// A whole number of any width that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::U8(x) => Some(x.into()),
            Self::U16(x) => Some(x.into()),
            Self::U32(x) => Some(x.into()),
            Self::U64(x) => Some(x),
            Self::I8(x) => x.try_into().ok(),
            Self::I16(x) => x.try_into().ok(),
            Self::I32(x) => x.try_into().ok(),
            Self::I64(x) => x.try_into().ok(),
            _ => None,
        }
    }

    /// A floating-point number of either width.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Self::F32(x) => Some(x.into()),
            Self::F64(x) => Some(x),
            _ => None,
        }
    }

    /// Text, when it is UTF-8.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::String(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The elements of an array.
    pub fn as_elements(&self) -> Option<&[Self]> {
        match self {
            Self::Array { elements, .. } => Some(elements),
            _ => None,
        }
    }

    /// Appends the value (without its type id) as it stands in a file.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        match self {
            Self::U8(x) => out.push(*x),
            Self::I8(x) => out.extend(x.to_le_bytes()),
            Self::U16(x) => out.extend(x.to_le_bytes()),
            Self::I16(x) => out.extend(x.to_le_bytes()),
            Self::U32(x) => out.extend(x.to_le_bytes()),
            Self::I32(x) => out.extend(x.to_le_bytes()),
            Self::F32(x) => out.extend(x.to_le_bytes()),
            Self::Bool(x) => out.push(u8::from(*x)),
            Self::String(bytes) => write_string(bytes, out),
            Self::Array { element_type, elements } => {
                out.extend(element_type.to_le_bytes());
                out.extend((elements.len() as u64).to_le_bytes());
                elements.iter().for_each(|e| e.write_to(out));
            }
            Self::U64(x) => out.extend(x.to_le_bytes()),
            Self::I64(x) => out.extend(x.to_le_bytes()),
            Self::F64(x) => out.extend(x.to_le_bytes()),
        }
    }
}

/// Appends a length and the bytes.
pub fn write_string(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend(bytes);
}

impl From<u32> for Value {
    fn from(x: u32) -> Self {
        Self::U32(x)
    }
}
impl From<f32> for Value {
    fn from(x: f32) -> Self {
        Self::F32(x)
    }
}
impl From<bool> for Value {
    fn from(x: bool) -> Self {
        Self::Bool(x)
    }
}
impl From<&str> for Value {
    fn from(x: &str) -> Self {
        Self::text(x)
    }
}
