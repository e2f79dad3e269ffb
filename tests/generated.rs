//! Generates the Rust code of the messages in `proto/`, and checks that the committed code is equal to it. After a change of
//! such a file, `PLEGCTL_BLESS=1 cargo test --test product generated -- --nocapture` updates the code and shows the
//! difference.
//!
//! The generator reads the part of the language that these files use, and stops at anything else. It writes the attributes
//! that prost's derive macros read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::support::difference;

/// The directory with the generated messages.
const COMMITTED: &str = "src/cri/generated";

#[test]
fn product_messages_are_current() {
    check_is_current("cri.proto", "runtime.v1.rs");
}

#[test]
fn messages_of_the_pods_api_are_current() {
    check_is_current("pods.proto", "v1alpha1.rs");
}

/// Compares the committed `file` with the code generated from `proto`.
fn check_is_current(proto: &str, file: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fresh = code(&parse(&fs::read_to_string(root.join("proto").join(proto)).unwrap()), proto);
    let committed = root.join(COMMITTED).join(file);
    if difference::update_if_blessed(&committed, &fresh) {
        return;
    }
    let current = fs::read_to_string(&committed).unwrap_or_default();
    assert!(
        fresh == current,
        "{COMMITTED}/{file} is not what proto/{proto} generates; run PLEGCTL_BLESS=1 cargo test --test product generated -- --nocapture\n{}",
        difference::difference(&current, &fresh)
    );
}

/// A message or an enum.
struct Definition {
    /// The comment directly above it.
    comment: String,
    is_enum: bool,
    name: String,
    fields: Vec<Field>,
}

/// A field of a message, or a value of an enum, which has no label and no type.
struct Field {
    /// `optional`, `repeated` or nothing.
    label: String,
    kind: String,
    name: String,
    number: u32,
}

/// Reads a .proto file. Panics at a line that the generator does not know.
fn parse(proto: &str) -> Vec<Definition> {
    let mut definitions: Vec<Definition> = Vec::new();
    let (mut comment, mut block) = (String::new(), "");
    for line in proto.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("//") {
            writeln!(comment, "///{text}").unwrap();
            continue;
        }
        let words: Vec<&str> = line.trim_end_matches(';').split_whitespace().collect();
        match (block, &words[..]) {
            (_, []) | ("", ["syntax", "=", "\"proto3\""] | ["package", _]) | ("service", ["rpc", ..]) => {}
            ("", ["service", _, "{"]) => block = "service",
            ("", [kind @ ("message" | "enum"), name, braces @ ("{" | "{}")]) => {
                let (name, is_enum) = (type_name(name), *kind == "enum");
                definitions.push(Definition { comment: comment.clone(), is_enum, name, fields: Vec::new() });
                block = if *braces == "{" { kind } else { "" };
            }
            ("message" | "enum", [kind @ .., name, "=", number]) => {
                let (label, kind) = match kind {
                    [label @ ("optional" | "repeated"), kind] => (*label, *kind),
                    [kind] => ("", *kind),
                    [] => ("", ""),
                    _ => panic!("cannot read the field {line:?}"),
                };
                definitions.last_mut().unwrap().fields.push(Field {
                    label: label.to_owned(),
                    kind: type_name(kind),
                    name: (*name).to_owned(),
                    number: number.parse().unwrap(),
                });
            }
            ("message" | "enum" | "service", ["}"]) => block = "",
            _ => panic!("cannot read {line:?}"),
        }
        comment.clear();
    }
    assert_eq!(block, "", "the last block has no end");
    definitions
}

/// Returns a type's name in Rust's style: `PodIP` becomes `PodIp`.
fn type_name(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let is_capital = |at: usize| letters.get(at).is_none_or(char::is_ascii_uppercase);
    let lower = |at: usize| at > 0 && is_capital(at - 1) && is_capital(at + 1);
    letters
        .iter()
        .enumerate()
        .map(|(at, letter)| if lower(at) { letter.to_ascii_lowercase() } else { *letter })
        .collect()
}

/// Returns the name of an enum's value in Rust's style: `SANDBOX_READY` becomes `SandboxReady`.
fn value_name(name: &str) -> String {
    name.split('_').map(|word| word[..1].to_owned() + &word[1..].to_ascii_lowercase()).collect()
}

/// What a message derives besides `Clone` and `PartialEq`.
#[derive(Clone, Copy)]
struct Derives {
    copy: bool,
    eq_and_hash: bool,
}

/// Returns the Rust code of `definitions`: the messages first, then the enums.
fn code(definitions: &[Definition], proto: &str) -> String {
    let by_name: BTreeMap<&str, &Definition> =
        definitions.iter().map(|definition| (definition.name.as_str(), definition)).collect();
    let mut code = format!("// This file is @generated from proto/{proto} by tests/generated.rs.\n");
    let (enums, messages): (Vec<_>, Vec<_>) = definitions.iter().partition(|definition| definition.is_enum);
    for message in messages {
        let derives = derives(message, &by_name);
        let copy = if derives.copy { "Copy, " } else { "" };
        let eq = if derives.eq_and_hash { "Eq, Hash, " } else { "" };
        let Definition { comment, name, .. } = message;
        write!(
            code,
            "{comment}#[derive(Clone, {copy}PartialEq, {eq}::prost::Message)]\npub struct {name} {{"
        )
        .unwrap();
        for field in &message.fields {
            code += &field_code(field, &by_name);
        }
        code += if message.fields.is_empty() { "}\n" } else { "\n}\n" };
    }
    for definition in enums {
        code += &enum_code(definition);
    }
    code
}

fn derives(message: &Definition, by_name: &BTreeMap<&str, &Definition>) -> Derives {
    let mut derives = Derives { copy: true, eq_and_hash: true };
    for field in &message.fields {
        let inner = by_name.get(field.kind.as_str()).filter(|definition| !definition.is_enum);
        let is_list = field.label == "repeated";
        let of_field = match inner {
            Some(_) if is_list => Derives { copy: false, eq_and_hash: false },
            Some(inner) => self::derives(inner, by_name),
            None => Derives { copy: !is_list && field.kind != "string", eq_and_hash: true },
        };
        derives.copy &= of_field.copy;
        derives.eq_and_hash &= of_field.eq_and_hash;
    }
    derives
}

fn field_code(field: &Field, by_name: &BTreeMap<&str, &Definition>) -> String {
    let Field { label, kind, name, number } = field;
    let (attribute, rust) = match (kind.as_str(), by_name.get(kind.as_str())) {
        ("string", _) => ("string".to_owned(), "::prost::alloc::string::String"),
        ("bool", _) => ("bool".to_owned(), "bool"),
        ("int32", _) => (kind.clone(), "i32"),
        ("int64", _) => (kind.clone(), "i64"),
        ("uint32", _) => (kind.clone(), "u32"),
        ("uint64", _) => (kind.clone(), "u64"),
        (_, Some(inner)) if inner.is_enum => (format!("enumeration = \"{kind}\""), "i32"),
        (_, Some(_)) => ("message".to_owned(), kind.as_str()),
        _ => panic!("unknown type {kind} of {name}"),
    };
    let (label, rust) = match label.as_str() {
        "repeated" => (", repeated", format!("::prost::alloc::vec::Vec<{rust}>")),
        "" if attribute != "message" => ("", rust.to_owned()),
        _ => (", optional", format!("::core::option::Option<{rust}>")),
    };
    let raw = if name == "type" { "r#" } else { "" };
    format!("\n    #[prost({attribute}{label}, tag = \"{number}\")]\n    pub {raw}{name}: {rust},")
}

fn enum_code(definition: &Definition) -> String {
    let Definition { comment, name, fields, .. } = definition;
    let each = |line: &dyn Fn(&str, &Field) -> String| -> String {
        fields.iter().map(|field| line(&value_name(&field.name), field)).collect()
    };
    let values = each(&|rust, field| format!("    {rust} = {},\n", field.number));
    let names = each(&|rust, field| format!("            Self::{rust} => \"{}\",\n", field.name));
    format!(
        "{comment}#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::prost::Enumeration)]
#[repr(i32)]
pub enum {name} {{
{values}}}
impl {name} {{
    /// Returns the name in the .proto file.
    pub fn as_str_name(&self) -> &'static str {{
        match self {{
{names}        }}
    }}
}}
"
    )
}

#[test]
fn the_calls_of_137_that_checkpoint_or_restore_a_pod_are_not_in_the_client() {
    for file in ["proto/cri.proto", "src/cri/generated/runtime.v1.rs", "src/cri/rpc.rs"] {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        assert!(text.contains("PodSandboxStatus"), "{file}");
        for call in ["CheckpointPod", "RestorePod"] {
            assert!(!text.contains(call), "{file} has {call}");
        }
    }
}
