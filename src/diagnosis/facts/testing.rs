//! The JSON schema of a fact, which only tests need.

use super::Fact;

impl schemars::JsonSchema for Fact {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Fact".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "What was measured or concluded. The other fields depend on the kind.",
            "type": "object",
            "required": ["kind"],
            "properties": { "kind": { "description": "The kind of fact.", "type": "string" } },
            "additionalProperties": {},
        })
    }
}
