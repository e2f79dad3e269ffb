//! Formats a tree as JSON, byte for byte like Go's encoder. The kubelet converts YAML into this JSON before decoding.

use std::fmt::Write;

use crate::tree::{ManifestNode, MapEntry, Value};

/// Returns the JSON text of a tree: sorted keys, no white space, `<`, `>` and `&` escaped.
pub fn json_text(node: &ManifestNode) -> String {
    let mut text = String::new();
    write(node, &mut text);
    text
}

fn write(node: &ManifestNode, text: &mut String) {
    match &node.value {
        Value::Null => text.push_str("null"),
        Value::Bool(truth) => text.push_str(if *truth { "true" } else { "false" }),
        Value::Int(number) => text.push_str(&number.to_string()),
        Value::Float(number) => text.push_str(&float(*number)),
        Value::Str(string) => push_quoted(string, text),
        Value::Quantity(amount) => push_quoted(&amount.to_string(), text),
        Value::List(items) => {
            text.push('[');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        Value::Map(map) => {
            let mut entries: Vec<&MapEntry> = map.entries().iter().collect();
            entries.sort_by(|left, right| left.key.cmp(&right.key));
            text.push('{');
            for (number, entry) in entries.into_iter().enumerate() {
                if number > 0 {
                    text.push(',');
                }
                push_quoted(&entry.key, text);
                text.push(':');
                write(&entry.value, text);
            }
            text.push('}');
        }
    }
}

/// Formats a float in Go's shortest form, with an exponent below 1e-6 and from 1e21 on.
pub fn float(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return number.to_string();
    }
    let text = format!("{number:e}");
    // Go writes `1e+21`, and `1e-07` as `1e-7`.
    match text.split_once('e') {
        Some((digits, power)) if !power.starts_with('-') => format!("{digits}e+{power}"),
        _ => text,
    }
}

/// Appends a string in quotes to the JSON text. Like Go, it also escapes characters that are special in HTML.
pub fn push_quoted(string: &str, text: &mut String) {
    text.push('"');
    for letter in string.chars() {
        match letter {
            '"' | '\\' => {
                text.push('\\');
                text.push(letter);
            }
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                // Writing to a String does not fail.
                let _ = write!(text, "\\u{:04x}", u32::from(letter));
            }
            other => text.push(other),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::read;

    #[test]
    fn a_tree_is_formatted_as_by_gos_encoder() {
        let root = read("b: [1, 1e21, 1e-7, 1.5, ~, yes]\na: \"<&>\\n\\u2028\"\n".as_bytes()).root.unwrap();
        let text = "{\"a\":\"\\u003c\\u0026\\u003e\\n\\u2028\",\"b\":[1,1e+21,1e-7,1.5,null,true]}";
        assert_eq!(json_text(&root), text);
    }
}
