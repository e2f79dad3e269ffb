//! What all JSON of plegctl has in common: the two keys in front.

use serde::Serialize;

/// Version of every document that this program writes.
pub const API_VERSION: &str = "plegctl/v1";

/// A body with the two keys in front. The body brings `kind` itself, by `#[serde(tag = "kind")]`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a, T> {
    api_version: &'static str,
    #[serde(flatten)]
    body: &'a T,
}

/// `body` as a document, ready for any serializer.
pub const fn document<T: Serialize>(body: &T) -> Document<'_, T> {
    Document { api_version: API_VERSION, body }
}
