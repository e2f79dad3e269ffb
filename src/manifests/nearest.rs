//! Suggests a field for an unknown name.

use super::schema::{FieldType, GoStruct, pod};

/// Returns a field of `object` with a similar name.
pub fn field(object: &GoStruct, name: &str) -> Option<String> {
    let keys = object.decoded_fields().into_iter().filter_map(|field| field.key);
    let candidates = keys.map(|key| (strsim::levenshtein(&lower(name), &lower(key)), key));
    let (distance, nearest) = candidates.min_by_key(|(distance, _)| *distance)?;
    let allowed = if name.chars().count() < 5 { 1 } else { 2 };
    (distance <= allowed).then(|| nearest.to_owned())
}

/// Objects that are no place for a misplaced field: the kubelet ignores the status, and refuses ephemeral containers.
const NO_HOME: &[&str] = &["status", "ephemeralContainers"];

/// Returns the shortest path of an object of a Pod that has a field `name`.
pub fn home(name: &str) -> Option<String> {
    let mut level: Vec<(&'static GoStruct, String)> = vec![(pod(), String::new())];
    for _ in 0..6 {
        let mut below = Vec::new();
        for (object, path) in level {
            let mut fields = object.decoded_fields();
            if fields.iter().any(|field| field.key == Some(name)) {
                return Some(path);
            }
            // Many fields of a container are also fields of a volume. They are more often meant for a container.
            fields.sort_by_key(|field| field.key != Some("containers"));
            for field in fields {
                let Some(key) = field.key.filter(|key| !NO_HOME.contains(key)) else { continue };
                let (ty, suffix) = match &field.ty {
                    FieldType::List(item) => (&**item, "[]"),
                    ty => (ty, ""),
                };
                if let Some(inner) = ty.inner_struct() {
                    let dot = if path.is_empty() { "" } else { "." };
                    below.push((inner, format!("{path}{dot}{key}{suffix}")));
                }
            }
        }
        level = below;
    }
    None
}

/// Converts to lower case. A name from a file may have any length.
fn lower(name: &str) -> String {
    name.chars().take(64).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_field_gets_a_similar_name() {
        let spec = pod().field("spec", 36).unwrap().ty.inner_struct().unwrap();
        assert_eq!(field(spec, "hostnetwork"), Some("hostNetwork".to_owned()));
        assert_eq!(field(spec, "contaners"), Some("containers".to_owned()));
        assert_eq!(field(spec, "replicas"), None);
    }

    #[test]
    fn a_misplaced_field_gets_the_path_where_it_belongs() {
        assert_eq!(home("containers"), Some("spec".to_owned()));
        assert_eq!(home("image"), Some("spec.containers[]".to_owned()));
        assert_eq!(home("nonsense"), None);
    }
}
