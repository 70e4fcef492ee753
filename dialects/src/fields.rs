//! Objects of a request, read field by field: what is missing or of another type is refused by its name.

use serde_json::{Map, Value};

use crate::error::ApiError;

/// Characters of a value that an error repeats.
const SHOWN_CHARS: usize = 60;

/// An object and where it is in the request. `null` is the same as a missing field.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a> {
    object: &'a Map<String, Value>,
    path: String,
}

impl<'a> Fields<'a> {
    /// The request itself.
    pub fn of(value: &'a Value) -> Result<Self, ApiError> {
        Self::at(value, "")
    }

    /// An object at a path of the request.
    pub fn at(value: &'a Value, path: impl Into<String>) -> Result<Self, ApiError> {
        let path = path.into();
        match value {
            Value::Object(object) => Ok(Self { object, path }),
            _ => Err(wrong(if path.is_empty() { "the body" } else { &path }, value, "an object")),
        }
    }

    /// The name of a field as errors give it.
    pub fn name(&self, field: &str) -> String {
        if self.path.is_empty() { field.to_owned() } else { format!("{}.{field}", self.path) }
    }

    /// A field, whatever it is.
    pub fn get(&self, field: &str) -> Option<&'a Value> {
        self.object.get(field).filter(|value| !value.is_null())
    }

    /// A field that must be there.
    pub fn required(&self, field: &str, wanted: &str) -> Result<&'a Value, ApiError> {
        self.get(field).ok_or_else(|| ApiError::Field {
            field: self.name(field),
            found: "missing".into(),
            wanted: wanted.into(),
        })
    }

    /// The error that a field is not what was wanted.
    pub fn wrong(&self, field: &str, wanted: &str) -> ApiError {
        wrong(&self.name(field), self.get(field).unwrap_or(&Value::Null), wanted)
    }

    /// The error that a field asks for what is not served.
    pub fn unsupported(&self, field: &str, hint: &str) -> ApiError {
        ApiError::Unsupported { field: self.name(field), hint: hint.into() }
    }

    /// Refuses a field that is there at all.
    pub fn refuse(&self, field: &str, hint: &str) -> Result<(), ApiError> {
        if self.get(field).is_some() { Err(self.unsupported(field, hint)) } else { Ok(()) }
    }

    /// A text.
    pub fn text(&self, field: &str) -> Result<Option<&'a str>, ApiError> {
        let text = |value: &'a Value| value.as_str().ok_or_else(|| self.wrong(field, "a text"));
        self.get(field).map(text).transpose()
    }

    /// A number.
    pub fn number(&self, field: &str) -> Result<Option<f64>, ApiError> {
        let number = |value: &'a Value| value.as_f64().ok_or_else(|| self.wrong(field, "a number"));
        self.get(field).map(number).transpose()
    }

    /// A whole number, also one that is written with a fraction of zero.
    pub fn integer(&self, field: &str) -> Result<Option<i64>, ApiError> {
        let whole = |value: &'a Value| {
            let float = || value.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 9.007e15);
            let whole = value.as_i64().or_else(|| float().map(|f| f as i64));
            whole.ok_or_else(|| self.wrong(field, "a whole number"))
        };
        self.get(field).map(whole).transpose()
    }

    /// A whole number of a range.
    pub fn count(&self, field: &str, min: u32, max: u32) -> Result<Option<u32>, ApiError> {
        let Some(wide) = self.integer(field)? else { return Ok(None) };
        let count = u32::try_from(wide).ok().filter(|count| (min..=max).contains(count));
        count.map(Some).ok_or_else(|| self.wrong(field, &format!("a whole number from {min} to {max}")))
    }

    /// A limit of tokens: at least `min`, and as many as there are numbers.
    pub fn limit(&self, field: &str, min: u32) -> Result<Option<u32>, ApiError> {
        let Some(wide) = self.integer(field)? else { return Ok(None) };
        if wide < i64::from(min) {
            return Err(self.wrong(field, &format!("a whole number from {min} on")));
        }
        Ok(Some(u32::try_from(wide).unwrap_or(u32::MAX)))
    }

    /// Yes or no.
    pub fn flag(&self, field: &str) -> Result<Option<bool>, ApiError> {
        let flag = |value: &'a Value| value.as_bool().ok_or_else(|| self.wrong(field, "true or false"));
        self.get(field).map(flag).transpose()
    }

    /// An object within.
    pub fn object(&self, field: &str) -> Result<Option<Fields<'a>>, ApiError> {
        self.get(field).map(|value| Fields::at(value, self.name(field))).transpose()
    }

    /// A list of at most so many; absent is empty.
    pub fn list(&self, field: &str, max: usize) -> Result<&'a [Value], ApiError> {
        match self.get(field) {
            None => Ok(&[]),
            Some(Value::Array(items)) if items.len() <= max => Ok(items),
            Some(Value::Array(items)) => Err(ApiError::Field {
                field: self.name(field),
                found: format!("a list of {}", items.len()),
                wanted: format!("at most {max}"),
            }),
            Some(_) => Err(self.wrong(field, "a list")),
        }
    }

    /// The objects of a list, each with its place.
    pub fn objects(&self, field: &str, max: usize) -> Result<Vec<Fields<'a>>, ApiError> {
        let items = self.list(field, max)?.iter().enumerate();
        items.map(|(i, item)| Fields::at(item, format!("{}[{i}]", self.name(field)))).collect()
    }

    /// A text, or a list of at most so many; absent is empty.
    pub fn texts(&self, field: &str, max: usize) -> Result<Vec<String>, ApiError> {
        if let Some(Value::String(text)) = self.get(field) {
            return Ok(vec![text.clone()]);
        }
        let text = |item: &Value| item.as_str().map(str::to_owned);
        let texts: Option<Vec<String>> = match self.get(field) {
            Some(Value::Array(_)) | None => self.list(field, max)?.iter().map(text).collect(),
            Some(_) => None,
        };
        texts.ok_or_else(|| self.wrong(field, "a text or a list of texts"))
    }
}

/// The error that something is not what was wanted.
pub(crate) fn wrong(field: &str, found: &Value, wanted: &str) -> ApiError {
    ApiError::Field { field: field.into(), found: shown(found), wanted: wanted.into() }
}

/// A value for an error.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
