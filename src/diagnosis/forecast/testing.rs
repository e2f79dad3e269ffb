//! What only tests need of forecasts: one for the threads of a containerd, and the JSON schema.

use super::{LimitForecast, LimitKind};
use crate::clock::Wall;
use crate::diagnosis::facts::ProcessRef;
use crate::report::Confidence;

impl LimitForecast {
    /// Returns a forecast for the threads of a containerd, which has grown for four hours, for tests.
    pub fn of_threads(taken_at: Wall, left: std::time::Duration, confidence: Confidence) -> Self {
        Self {
            limit: LimitKind::Threads,
            process: Some(ProcessRef { name: "containerd".into(), pid: 812 }),
            used: 6312,
            max: 10_000,
            per_minute: 3.4.into(),
            since: taken_at.minus(std::time::Duration::from_secs(4 * 3600)),
            taken_at,
            full_at: taken_at.plus(left),
            confidence,
        }
    }
}

impl schemars::JsonSchema for LimitForecast {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LimitForecast".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let limit = generator.subschema_for::<LimitKind>();
        let time = generator.subschema_for::<Wall>();
        schemars::json_schema!({
            "description": "When a hard limit is reached.",
            "type": "object",
            "required": ["limit", "used", "max", "perMinute", "since", "takenAt", "fullAt", "confidence"],
            "properties": {
                "limit": limit,
                "process": { "description": "Whose limit it is; absent if it is the node's.", "type": "object" },
                "used": { "description": "How much is used.", "type": "integer" },
                "max": { "description": "The limit.", "type": "integer" },
                "perMinute": { "description": "The growth.", "type": "number" },
                "since": time,
                "takenAt": time,
                "fullAt": time,
                "confidence": generator.subschema_for::<Confidence>(),
            },
        })
    }
}
