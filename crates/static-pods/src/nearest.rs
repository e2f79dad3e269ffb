//! Suggests a correction for an unknown field: a similar name in the same object, or another object that has the name.

use super::schema::{FieldType, GoStruct, pod};

/// Returns the name of a field of `object` that is similar to `name`.
pub fn field(object: &GoStruct, name: &str) -> Option<String> {
    let keys = object.decoded_fields().into_iter().filter_map(|field| field.key);
    let candidates = keys.map(|key| (strsim::levenshtein(&lower(name), &lower(key)), key));
    let (distance, nearest) = candidates.min_by_key(|(distance, _)| *distance)?;
    let allowed = if name.chars().count() < 5 { 1 } else { 2 };
    (distance <= allowed).then(|| nearest.to_owned())
}

/// Objects that are never suggested: the kubelet ignores the status, and refuses ephemeral containers.
const NEVER_SUGGESTED: &[&str] = &["status", "ephemeralContainers"];

/// Returns the shortest path of an object of a Pod that has a field `name`.
pub fn home(name: &str) -> Option<String> {
    /// How many levels of objects are searched.
    const LEVELS: usize = 6;
    let mut level: Vec<(&'static GoStruct, String)> = vec![(pod(), String::new())];
    for _ in 0..LEVELS {
        let mut next_level = Vec::new();
        for (object, path) in level {
            let mut fields = object.decoded_fields();
            if fields.iter().any(|field| field.key == Some(name)) {
                return Some(path);
            }
            // Many fields of a container are also fields of a volume. They are more often meant for a container.
            fields.sort_by_key(|field| field.key != Some("containers"));
            for field in fields {
                let Some(key) = field.key.filter(|key| !NEVER_SUGGESTED.contains(key)) else { continue };
                let (ty, suffix) = match &field.ty {
                    FieldType::List(item) => (&**item, "[]"),
                    ty => (ty, ""),
                };
                if let Some(inner) = ty.inner_struct() {
                    let dot = if path.is_empty() { "" } else { "." };
                    next_level.push((inner, format!("{path}{dot}{key}{suffix}")));
                }
            }
        }
        level = next_level;
    }
    None
}

/// Converts the first 64 characters to lower case, because a name from a file may have any length.
fn lower(name: &str) -> String {
    name.chars().take(64).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_field_gets_the_similar_name_as_suggestion() {
        let spec = pod().field("spec", 36).unwrap().ty.inner_struct().unwrap();
        assert_eq!(field(spec, "hostnetwork"), Some("hostNetwork".to_owned()));
        assert_eq!(field(spec, "contaners"), Some("containers".to_owned()));
        assert_eq!(field(spec, "replicas"), None);
    }

    #[test]
    fn a_misplaced_field_gets_the_path_of_the_right_object() {
        assert_eq!(home("containers"), Some("spec".to_owned()));
        assert_eq!(home("image"), Some("spec.containers[]".to_owned()));
        assert_eq!(home("nonsense"), None);
    }
}
