//! A part of a pod, kept small: ten thousand pods as trees would be more than the kubelet itself holds.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// JSON as text, its keys in order: two parts are equal when they say the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part(Box<str>);

const NULL: &str = "null";

impl Part {
    /// Whether it says nothing.
    pub fn is_null(&self) -> bool {
        &*self.0 == NULL
    }

    /// As a tree.
    pub fn read(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl Default for Part {
    fn default() -> Self {
        Self(NULL.into())
    }
}

impl From<Value> for Part {
    fn from(value: Value) -> Self {
        // The map of serde_json is sorted.
        Self(value.to_string().into())
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Value::deserialize(from).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_says_the_same_is_equal_and_reads_back() {
        let one: Part = serde_json::from_str(r#"{"b": [1, null], "a": "x"}"#).unwrap();
        let other: Part = serde_json::from_str(r#"{ "a":"x","b":[1,null] }"#).unwrap();
        assert_eq!(one, other);
        assert_eq!(one.read(), json!({"a": "x", "b": [1, null]}));
        assert!(Part::default().is_null() && Part::from(Value::Null).is_null() && !one.is_null());
        assert_eq!(Part::default().read(), Value::Null);
    }
}
