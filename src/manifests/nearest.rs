//! Suggests a field for an unknown name.

use super::schema::{Object, POD, Type};

/// Returns a field of `object` with a similar name.
pub fn field(object: &Object, name: &str) -> Option<String> {
    let candidates =
        object.fields.iter().map(|field| (strsim::levenshtein(&lower(name), &lower(field.name)), field.name));
    let (distance, nearest) = candidates.min_by_key(|(distance, _)| *distance)?;
    let allowed = if name.chars().count() < 5 { 1 } else { 2 };
    (distance <= allowed).then(|| nearest.to_owned())
}

/// Returns the shortest path of another object of a Pod that has a field `name`.
pub fn home(except: &Object, name: &str) -> Option<String> {
    let mut level: Vec<(&'static Object, String)> = vec![(&POD, String::new())];
    for _ in 0..6 {
        let mut below = Vec::new();
        for (object, path) in level {
            if object.name != except.name && object.field(name).is_some() {
                return Some(path);
            }
            for field in object.fields.iter().filter(|field| field.name != "status") {
                let (inner, suffix) = inner_object(field.ty, "");
                if let Some(inner) = inner {
                    let dot = if path.is_empty() { "" } else { "." };
                    below.push((inner, format!("{path}{dot}{}{suffix}", field.name)));
                }
            }
        }
        level = below;
    }
    None
}

fn inner_object(ty: Type, suffix: &'static str) -> (Option<&'static Object>, &'static str) {
    match ty {
        Type::Object(object) => (Some(object), suffix),
        Type::List(item) => inner_object(*item, "[]"),
        _ => (None, suffix),
    }
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
        let Type::Object(spec) = POD.field("spec").unwrap().ty else { unreachable!() };
        assert_eq!(field(spec, "hostnetwork"), Some("hostNetwork".to_owned()));
        assert_eq!(field(spec, "contaners"), Some("containers".to_owned()));
        assert_eq!(field(spec, "replicas"), None);
    }

    #[test]
    fn a_misplaced_field_gets_the_path_where_it_belongs() {
        assert_eq!(home(&POD, "containers"), Some("spec".to_owned()));
        assert_eq!(home(&POD, "image"), Some("spec.containers[]".to_owned()));
        assert_eq!(home(&POD, "nonsense"), None);
    }
}
