//! Stores a JSON value as compact text instead of a tree, because text needs less memory: trees of ten thousand pods
//! would need more memory than the kubelet itself.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// JSON as text with sorted keys. Two values are equal if their texts are equal.
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
        self.parsed().unwrap_or_default()
    }

    /// Parses the text as a type. Fails if the text has another form.
    pub fn parsed<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(&self.0)
    }
}

impl Default for CompactJson {
    fn default() -> Self {
        Self(NULL.into())
    }
}

impl From<Value> for CompactJson {
    fn from(value: Value) -> Self {
        // serde_json prints the keys of a map in sorted order.
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
    fn key_order_and_white_space_of_the_input_do_not_change_the_value() {
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
