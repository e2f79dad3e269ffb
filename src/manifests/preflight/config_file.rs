//! Decodes a configuration file as the kubelet does: which faults end the start, and which are passed over.

use std::sync::Arc;

use super::catalogue::StartCheck;
use super::finding::StartFinding;
use super::release::TargetKubelet;
use super::settings::{Origin, is_free_mapping};
use super::tables::Tables;
use crate::kubelet::go_nanoseconds;
use crate::manifests::quantity::Quantity;
use crate::manifests::reader::{SyntaxFault, float, read};
use crate::manifests::report::ReaderNotes;
use crate::manifests::tree::{ManifestNode, Map, MapEntry, Position, Value};
use crate::report::{Confidence, most_similar};

const KIND: &str = "KubeletConfiguration";
const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";

/// A decoded configuration file.
pub struct DecodedConfig {
    /// The document, if it is one.
    pub root: Option<ManifestNode>,
    /// The text, for the line under a finding.
    pub text: Arc<str>,
    /// The findings.
    pub findings: Vec<StartFinding>,
}

/// A configuration file to decode.
pub struct ConfigText<'a> {
    /// The path, as the kubelet sees it.
    pub path: &'a Arc<str>,
    /// The bytes.
    pub bytes: &'a [u8],
    /// Whether the file is a drop-in file.
    pub is_drop_in: bool,
}

/// Decodes a file.
pub fn decode(file: &ConfigText<'_>, kubelet: TargetKubelet) -> DecodedConfig {
    let mut decoder = Decoder { file, kubelet, is_json: false, findings: Vec::new(), faults: Vec::new() };
    if file.bytes.is_empty() {
        let finding = StartFinding::new(StartCheck::ConfigNotYaml, "the file is empty");
        let why = format!("kubelet config file \"{}\" was empty", file.path);
        decoder.refuse(finding, Position::START, Some(&why), "");
        return decoder.decoded(None, Arc::from(""));
    }
    let result = read(file.bytes);
    let root = match result.root {
        Ok(root) => root,
        Err(fault) if fault.fault == SyntaxFault::NotJudged => return decoder.decoded(None, result.text),
        Err(fault) => {
            let mut finding = StartFinding::new(StartCheck::ConfigNotYaml, fault.message);
            finding.fix = fault.fix;
            let words = Some(fault.reason.as_str()).filter(|reason| reason.starts_with("yaml: "));
            decoder.refuse(finding, fault.position.unwrap_or(Position::START), words, "failed to decode: ");
            return decoder.decoded(None, result.text);
        }
    };
    decoder.is_json = result.notes.json;
    decoder.repeated_keys(&result.notes);
    if decoder.kind(&root) {
        decoder.mapping(&root, "", "", KIND);
        decoder.types();
        return decoder.decoded(Some(root), result.text);
    }
    decoder.decoded(None, result.text)
}

/// A value of the wrong type.
struct TypeFault {
    finding: StartFinding,
    position: Position,
    reason: String,
    /// Whether decoding ends at this value, so that only this fault is reported.
    ends_decoding: bool,
}

struct Decoder<'a> {
    file: &'a ConfigText<'a>,
    kubelet: TargetKubelet,
    is_json: bool,
    findings: Vec<StartFinding>,
    faults: Vec<TypeFault>,
}

impl Decoder<'_> {
    fn decoded(self, root: Option<ManifestNode>, text: Arc<str>) -> DecodedConfig {
        DecodedConfig { root, text, findings: self.findings }
    }

    fn origin(&self, position: Position) -> Origin {
        Origin::File { file: Arc::clone(self.file.path), position }
    }

    /// Adds a finding that ends the start. The kubelet wraps its words in the file's path.
    fn refuse(&mut self, finding: StartFinding, at: Position, words: Option<&str>, step: &str) {
        let path = self.file.path;
        let finding = finding.at(&self.origin(at));
        let finding = match words {
            None => finding,
            // How the errors of a drop-in file begin was not recorded.
            Some(words) if self.file.is_drop_in => finding.saying(words),
            Some(words) => {
                let inner = format!("failed to load Kubelet config file {path}, error {step}{words}");
                // The frame of 1.28 is another one.
                finding.saying(if self.kubelet.release.at_least(29) {
                    format!("failed to load kubelet config file, path: {path}, error: {inner}")
                } else {
                    inner
                })
            }
        };
        let is_inferred = self.file.is_drop_in;
        self.findings.push(if is_inferred { finding.with_confidence(Confidence::Likely) } else { finding });
    }

    fn repeated_keys(&mut self, notes: &ReaderNotes) {
        for key in &notes.duplicate_keys {
            let message = format!(
                "`{}` is written in line {} too; the kubelet uses the later value",
                key.key, key.first.line
            );
            let finding = StartFinding::new(StartCheck::RepeatedKey, message)
                .at(&self.origin(key.again))
                .saying(format!("key {:?} already set in map", key.key))
                .with_fix("remove one of the two");
            self.findings.push(finding);
        }
    }

    /// Checks kind and apiVersion; returns whether the file is a configuration of the kubelet.
    fn kind(&mut self, root: &ManifestNode) -> bool {
        let text = |key: &str| root.get(key).and_then(ManifestNode::as_str).unwrap_or_default();
        let (kind, version) = (text("kind"), text("apiVersion"));
        if (kind, version) == (KIND, API_VERSION) {
            return true;
        }
        let key =
            if kind == KIND || (kind.is_empty() && !version.is_empty()) { "kind" } else { "apiVersion" };
        let wrong = if kind == KIND { "apiVersion" } else { key };
        let position = root.get(wrong).map_or(Position::START, |node| node.position);
        let (message, words) = if root.as_map().is_none() && !root.is_null() {
            ("the file is no mapping of settings".to_owned(), None)
        } else if kind.is_empty() {
            let is_other = root.get("kind").is_some_and(|node| !node.is_null() && node.as_str() != Some(""));
            let words = (!is_other).then(|| "Object 'Kind' is missing in '…'".to_owned());
            ("`kind` is missing".to_owned(), words)
        } else if version.is_empty() {
            let is_other =
                root.get("apiVersion").is_some_and(|node| !node.is_null() && node.as_str() != Some(""));
            let words = (!is_other).then(|| "Object 'apiVersion' is missing in '…'".to_owned());
            ("`apiVersion` is missing".to_owned(), words)
        } else {
            let is_other_kind = matches!(kind, "SerializedNodeConfigSource" | "CredentialProviderConfig");
            let words = (!is_other_kind)
                .then(|| format!("no kind {kind:?} is registered for version {version:?} in scheme"));
            (format!("the kubelet does not read kind {kind} of {version}"), words)
        };
        let finding = StartFinding::new(StartCheck::ConfigOfOtherKind, message)
            .with_fix(format!("write apiVersion: {API_VERSION} and kind: {KIND}"));
        self.refuse(finding, position, words.as_deref(), "failed to decode: ");
        false
    }

    /// Checks the fields of an object. `template` is its path in the tables and `shown` its path with indexes.
    fn mapping(&mut self, node: &ManifestNode, template: &str, shown: &str, structure: &str) {
        let Some(map) = node.as_map() else { return };
        for entry in self.in_order(map) {
            let joined = |parent: &str| match parent {
                "" => entry.key.to_string(),
                parent => format!("{parent}.{}", entry.key),
            };
            let (path, shown) = (joined(template), joined(shown));
            match Tables::get().field(&path) {
                Some(field) if self.kubelet.release.at_least(field.since) => {
                    self.value(&entry.value, &path, &shown, structure, field.go_type);
                }
                Some(field) => self.unknown_field(entry, &shown, template, Some(field.since)),
                None => self.unknown_field(entry, &shown, template, None),
            }
        }
    }

    /// The entries in the order in which Go decodes them: YAML is converted to JSON with sorted keys first.
    fn in_order<'m>(&self, map: &'m Map) -> Vec<&'m MapEntry> {
        let mut entries: Vec<&MapEntry> = map.entries().iter().collect();
        if !self.is_json {
            entries.sort_by(|left, right| left.key.cmp(&right.key));
        }
        entries
    }

    fn unknown_field(&mut self, entry: &MapEntry, shown: &str, parent: &str, since: Option<u8>) {
        let release = self.kubelet.release;
        let message = match since {
            Some(since) => format!("kubelet {release} ignores `{shown}`, which exists from 1.{since} on"),
            None => format!("the kubelet does not know `{shown}` and ignores it"),
        };
        let finding = StartFinding::new(StartCheck::UnknownConfigField, message)
            .at(&self.origin(entry.key_position))
            .on(shown)
            .saying(format!("strict decoding error: unknown field {shown:?}"));
        let confidence = if self.kubelet.is_fully_known() || since.is_some() {
            Confidence::Certain
        } else {
            Confidence::Likely
        };
        let near = most_similar(&entry.key, Tables::get().fields_below(parent));
        self.findings.push(
            match (near, since) {
                (Some(near), None) => finding.with_fix(format!("did you mean `{near}`?")),
                _ => finding,
            }
            .with_confidence(confidence),
        );
    }

    fn value(&mut self, node: &ManifestNode, path: &str, shown: &str, structure: &str, go_type: &str) {
        if node.is_null() {
            return;
        }
        match go_type {
            "string" => self.expect(node, shown, structure, "string", is_text),
            "bool" => self.expect(node, shown, structure, "bool", |node| node.as_bool().is_some()),
            "int32" => self.integer(node, shown, structure, go_type, 31),
            "int64" => self.integer(node, shown, structure, go_type, 63),
            "VerbosityLevel" => self.integer(node, shown, structure, "v1.VerbosityLevel", 32),
            "float64" => self.expect(node, shown, structure, go_type, is_number),
            "metav1.Duration" => self.duration(node, shown, structure),
            "TimeOrMetaDuration" if is_text(node) => self.duration(node, shown, structure),
            "resource.QuantityValue" => self.quantity(node, shown),
            "[]string" => self.list(node, shown, structure, go_type, "string", is_text),
            "[]int32" => self.list(node, shown, structure, go_type, "int32", |node| node.as_int().is_some()),
            "map[string]bool" => {
                self.map(node, shown, structure, go_type, "bool", |node| node.as_bool().is_some());
            }
            "map[string]string" => self.map(node, shown, structure, go_type, "string", is_text),
            "map[string][]string" => {
                self.map(node, shown, structure, go_type, "[]string", |node| node.as_list().is_some());
            }
            "KubeletAuthorizationMode"
            | "ResourceChangeDetectionStrategy"
            | "ImagePullCredentialsVerificationPolicy"
            | "MemoryReservationPolicy" => {
                self.expect(node, shown, structure, &format!("v1beta1.{go_type}"), is_text);
            }
            _ if Tables::get().fields_below(path).next().is_some() => {
                let name = go_type.rsplit('.').next().unwrap_or(go_type);
                if node.as_map().is_some() {
                    self.mapping(node, path, shown, name);
                } else {
                    self.mismatch(node, shown, structure, &with_package(path, name));
                }
            }
            _ if go_type.starts_with("[]") => self.objects(node, path, shown, structure, go_type),
            _ => {}
        }
    }

    /// Checks a list of objects.
    fn objects(&mut self, node: &ManifestNode, path: &str, shown: &str, structure: &str, go_type: &str) {
        let name = go_type.trim_start_matches("[]");
        let name = if name.contains('.') { name.to_owned() } else { format!("v1beta1.{name}") };
        let Some(items) = node.as_list() else {
            return self.mismatch(node, shown, structure, &format!("[]{name}"));
        };
        let bare = name.rsplit('.').next().unwrap_or_default().to_owned();
        for (index, item) in items.iter().enumerate() {
            if item.as_map().is_some() {
                self.mapping(item, &format!("{path}[]"), &format!("{shown}[{index}]"), &bare);
            } else if !item.is_null() {
                // The message names the list.
                self.mismatch(item, shown, structure, &name);
            }
        }
    }

    fn expect(
        &mut self,
        node: &ManifestNode,
        shown: &str,
        structure: &str,
        go_type: &str,
        is_right: fn(&ManifestNode) -> bool,
    ) {
        if !node.is_null() && !is_right(node) {
            self.mismatch(node, shown, structure, go_type);
        }
    }

    fn integer(&mut self, node: &ManifestNode, shown: &str, structure: &str, go_type: &str, bits: u32) {
        let limit = 1_i128 << bits;
        let smallest = if go_type == "v1.VerbosityLevel" { 0 } else { -limit };
        if !node.as_int().is_some_and(|number| (smallest..limit).contains(&number)) {
            self.mismatch(node, shown, structure, go_type);
        }
    }

    fn list(
        &mut self,
        node: &ManifestNode,
        shown: &str,
        structure: &str,
        go_type: &str,
        item_type: &str,
        is_right: fn(&ManifestNode) -> bool,
    ) {
        match node.as_list() {
            None => self.mismatch(node, shown, structure, go_type),
            Some(items) => {
                for item in items {
                    self.expect(item, shown, structure, item_type, is_right);
                }
            }
        }
    }

    fn map(
        &mut self,
        node: &ManifestNode,
        shown: &str,
        structure: &str,
        go_type: &str,
        value_type: &str,
        is_right: fn(&ManifestNode) -> bool,
    ) {
        match node.as_map() {
            None => self.mismatch(node, shown, structure, go_type),
            Some(map) => {
                for entry in self.in_order(map) {
                    self.expect(&entry.value, shown, structure, value_type, is_right);
                }
            }
        }
    }

    fn duration(&mut self, node: &ManifestNode, shown: &str, structure: &str) {
        let fault = match node.as_str() {
            None => {
                self.mismatch(node, shown, structure, "string");
                // Durations decode themselves, and their error ends the decoding.
                if let Some(fault) = self.faults.last_mut() {
                    fault.ends_decoding = true;
                    fault.finding.message =
                        format!("`{shown}` is {}, not a duration such as \"10s\"", node.type_name());
                }
                return;
            }
            Some(text) => go_nanoseconds(text).err().map(|why| (text, why)),
        };
        if let Some((text, reason)) = fault {
            let message = format!("`{shown}` is `{text}`, which is no duration");
            let finding = StartFinding::new(StartCheck::WrongType, message)
                .on(shown)
                .with_fix("write a number with a unit, such as 10s or 5m");
            self.faults.push(TypeFault { finding, position: node.position, reason, ends_decoding: true });
        }
    }

    fn quantity(&mut self, node: &ManifestNode, shown: &str) {
        let text = match &node.value {
            Value::Str(text) => text.to_string(),
            Value::Int(number) => number.to_string(),
            _ => return,
        };
        if let Err(why) = Quantity::parse(&text) {
            let finding = StartFinding::new(
                StartCheck::WrongType,
                format!("`{shown}` is `{text}`, which is no quantity"),
            )
            .on(shown);
            let reason = why.to_string();
            self.faults.push(TypeFault { finding, position: node.position, reason, ends_decoding: true });
        }
    }

    fn mismatch(&mut self, node: &ManifestNode, shown: &str, structure: &str, go_type: &str) {
        let is_number_type = matches!(go_type, "int32" | "int64" | "v1.VerbosityLevel");
        let value = match &node.value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            Value::Int(number) if is_number_type => format!("number {number}"),
            Value::Float(number) if is_number_type => format!("number {}", float(*number)),
            Value::Int(_) | Value::Float(_) => "number".to_owned(),
            Value::Str(_) | Value::Quantity(_) => "string".to_owned(),
            Value::List(_) => "array".to_owned(),
            Value::Map(_) => "object".to_owned(),
        };
        // The fields of both log formats belong to an embedded structure, whose name Go adds.
        let field = match shown.strip_suffix(".splitStream") {
            Some(parent) => format!("{parent}.OutputRoutingOptions.splitStream"),
            None => shown.to_owned(),
        };
        let reason = format!(
            "json: cannot unmarshal {value} into Go struct field {structure}.{field} of type {go_type}"
        );
        let wanted = match go_type {
            "string" => "a text",
            "bool" => "true or false",
            _ if is_number_type => "an integer within its limits",
            _ if go_type.starts_with("[]") => "a list",
            _ if is_free_mapping(go_type) => "a mapping",
            "float64" => "a number",
            _ if go_type.starts_with("v1beta1.Kubelet") || is_object(go_type) => "a mapping",
            _ => "a text",
        };
        let finding = StartFinding::new(
            StartCheck::WrongType,
            format!("`{shown}` is {}, and the kubelet wants {wanted}", node.type_name()),
        )
        .on(shown);
        let finding = match (&node.value, go_type) {
            (Value::Str(text), "bool") if matches!(&**text, "true" | "false") => {
                finding.with_fix(format!("write {text} without quotes"))
            }
            (Value::Str(text), _) if is_number_type && text.parse::<i64>().is_ok() => {
                finding.with_fix(format!("write {text} without quotes"))
            }
            (Value::Int(number), "string") => finding.with_fix(format!("write \"{number}\" in quotes")),
            _ => finding,
        };
        self.faults.push(TypeFault { finding, position: node.position, reason, ends_decoding: false });
    }

    /// Reports the wrong types. The kubelet names one of them: the first that ends decoding, otherwise the first.
    fn types(&mut self) {
        let faults = std::mem::take(&mut self.faults);
        let named = faults.iter().position(|fault| fault.ends_decoding).unwrap_or(0);
        for (index, fault) in faults.into_iter().enumerate() {
            let words = (index == named).then_some(fault.reason.as_str());
            self.refuse(fault.finding, fault.position, words, "failed to decode: ");
        }
    }
}

fn is_text(node: &ManifestNode) -> bool {
    node.as_str().is_some()
}

fn is_number(node: &ManifestNode) -> bool {
    matches!(node.value, Value::Int(_) | Value::Float(_))
}

fn is_object(go_type: &str) -> bool {
    go_type.ends_with("Configuration")
        || go_type.ends_with("Options")
        || go_type.ends_with("Config")
        || go_type.ends_with("Taint")
}

/// A structure with the name of its Go package.
fn with_package(path: &str, name: &str) -> String {
    let package = if path.starts_with("logging") || path == "tracing" { "v1" } else { "v1beta1" };
    format!("{package}.{name}")
}
