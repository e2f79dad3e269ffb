//! Stores JSON as compact text: ten thousand pods as trees would need more memory than the kubelet uses.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// JSON as text with sorted keys: two values are equal if their texts are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactJson(Box<str>);

const NULL: &str = "null";

impl CompactJson {
    /// Whether the value is `null`.
    pub fn is_null(&self) -> bool {
        &*self.0 == NULL
    }

    /// Parses the text.
    pub fn read(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl Default for CompactJson {
    fn default() -> Self {
        Self(NULL.into())
    }
}

impl From<Value> for CompactJson {
    fn from(value: Value) -> Self {
        // serde_json's map is sorted.
        Self(value.to_string().into())
    }
}

impl<'de> Deserialize<'de> for CompactJson {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Value::deserialize(from).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_json_is_equal_and_is_read_back_unchanged() {
        let one: CompactJson = serde_json::from_str(r#"{"b": [1, null], "a": "x"}"#).unwrap();
        let other: CompactJson = serde_json::from_str(r#"{ "a":"x","b":[1,null] }"#).unwrap();
        assert_eq!(one, other);
        assert_eq!(one.read(), json!({"a": "x", "b": [1, null]}));
        assert!(
            CompactJson::default().is_null() && CompactJson::from(Value::Null).is_null() && !one.is_null()
        );
        assert_eq!(CompactJson::default().read(), Value::Null);
    }
}
