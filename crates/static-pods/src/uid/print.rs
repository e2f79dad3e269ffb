//! Prints a Pod in the format that the kubelet hashes (`dump.ForHash`, go-spew's `%#v`).
//!
//! The text contains the names of Go types, and all fields, even those that a pod does not set. So a release with one more
//! field prints a different text for every pod, and every UID changes.

use std::fmt::Write;

use super::UidUnknown;
use crate::schema::{FieldType, GoStruct, SchemaField, pod as pod_schema};
use plegctl_api_values::quantity::{Amount, Quantity};
use plegctl_api_values::reader::json_text;
use plegctl_api_values::tree::{ManifestNode, Map, MapEntry};

/// Returns the text that release `1.minor` prints for a Pod. `json` means that the file is JSON.
pub fn print(pod: &ManifestNode, minor: u8, json: bool) -> Result<String, UidUnknown> {
    let mut printer = PodPrinter { text: String::with_capacity(16 << 10), minor, json };
    printer.text.push_str("(*core.Pod)");
    printer.object(pod_schema(), Some(pod))?;
    Ok(printer.text)
}

struct PodPrinter {
    text: String,
    minor: u8,
    /// Whether the file is JSON. Then the kubelet prints embedded JSON with the bytes of the file.
    json: bool,
}

impl PodPrinter {
    /// Prints a Go struct with all its fields.
    fn object(&mut self, object: &GoStruct, node: Option<&ManifestNode>) -> Result<(), UidUnknown> {
        self.text.push('{');
        let minor = self.minor;
        for (number, field) in object.fields.iter().filter(|field| field.printed_in(minor)).enumerate() {
            if number > 0 {
                self.text.push(' ');
            }
            self.field(field, node)?;
        }
        self.text.push('}');
        Ok(())
    }

    /// Prints a field: its name, its Go type and its value.
    fn field(&mut self, field: &SchemaField, parent: Option<&ManifestNode>) -> Result<(), UidUnknown> {
        self.text.push_str(field.name);
        self.text.push_str(":(");
        self.text.push_str(field.go_type);
        self.text.push(')');
        let node = match field.key {
            Some(key) => parent.and_then(|parent| parent.get(key)),
            None => parent,
        };
        self.value(&field.ty, node)
    }

    /// Prints a value of this type; the zero value if the manifest has none.
    fn value(&mut self, ty: &FieldType, node: Option<&ManifestNode>) -> Result<(), UidUnknown> {
        match ty {
            FieldType::Str => self.text.push_str(node.and_then(ManifestNode::as_str).unwrap_or_default()),
            FieldType::Bool => {
                let truth = node.and_then(ManifestNode::as_bool).unwrap_or_default();
                self.text.push_str(if truth { "true" } else { "false" });
            }
            FieldType::Int32 | FieldType::Int64 => {
                self.number(node.and_then(ManifestNode::as_int).unwrap_or_default());
            }
            FieldType::Quantity => self.quantity(node.and_then(ManifestNode::as_quantity)),
            FieldType::Time => return self.time(node),
            FieldType::IntOrString => self.int_or_string(node),
            FieldType::Json => return self.raw(node),
            FieldType::Struct(object) => return self.object(object, node),
            FieldType::Pointer(to) => match node {
                None => self.text.push_str("<nil>"),
                some => return self.value(to, some),
            },
            FieldType::List(item) => match node.and_then(ManifestNode::as_list) {
                None => self.text.push_str("<nil>"),
                Some(items) => return self.list(item, items),
            },
            FieldType::Map(value) => match node.and_then(ManifestNode::as_map) {
                None => self.text.push_str("<nil>"),
                Some(map) => return self.map(value, map),
            },
        }
        Ok(())
    }

    /// Prints an integer.
    fn number(&mut self, number: i128) {
        self.append(format_args!("{number}"));
    }

    /// Appends formatted text.
    fn append(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.text.write_fmt(text);
    }

    /// Prints a Go slice.
    fn list(&mut self, item: &FieldType, items: &[ManifestNode]) -> Result<(), UidUnknown> {
        self.text.push('[');
        for (number, node) in items.iter().enumerate() {
            if number > 0 {
                self.text.push(' ');
            }
            self.value(item, Some(node))?;
        }
        self.text.push(']');
        Ok(())
    }

    /// Prints a Go map, sorted by key.
    fn map(&mut self, value: &FieldType, map: &Map) -> Result<(), UidUnknown> {
        let mut entries: Vec<&MapEntry> = map.entries().iter().collect();
        entries.sort_by(|left, right| left.key.cmp(&right.key));
        self.text.push_str("map[");
        for (number, entry) in entries.into_iter().enumerate() {
            if number > 0 {
                self.text.push(' ');
            }
            self.text.push_str(&entry.key);
            self.text.push(':');
            self.value(value, Some(&entry.value))?;
        }
        self.text.push(']');
        Ok(())
    }

    /// Prints the fields of a Go `Quantity`.
    fn quantity(&mut self, amount: Option<&Quantity>) {
        let zero = Quantity::ZERO;
        let quantity = amount.unwrap_or(&zero);
        let (value, scale) = match quantity.amount() {
            Amount::Small { value, scale } => (*value, *scale),
            Amount::Large(_) => (0, 0),
        };
        self.append(format_args!(
            "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} d:(resource.infDecAmount){{Dec:(*inf.Dec)"
        ));
        match quantity.amount() {
            Amount::Small { .. } => self.text.push_str("<nil>"),
            Amount::Large(number) => {
                self.append(format_args!(
                    "{{unscaled:(big.Int){{neg:(bool){} abs:(big.nat)",
                    number.unscaled < 0
                ));
                self.words(&number.words());
                self.append(format_args!("}} scale:(inf.Scale){}}}", number.scale));
            }
        }
        self.append(format_args!(
            "}} s:(string){} Format:(resource.Format){}}}",
            quantity.written(),
            quantity.format().name()
        ));
    }

    /// Prints the words of a big integer.
    fn words(&mut self, words: &[u64]) {
        if words.is_empty() {
            self.text.push_str("<nil>");
            return;
        }
        self.numbers(words);
    }

    /// Prints a list of numbers: `[1 2 3]`.
    fn numbers<T: std::fmt::Display>(&mut self, numbers: &[T]) {
        self.text.push('[');
        for (index, number) in numbers.iter().enumerate() {
            let separator = if index > 0 { " " } else { "" };
            self.append(format_args!("{separator}{number}"));
        }
        self.text.push(']');
    }

    /// Prints an absent time. A time in the file is an error, because the kubelet prints it with the complete table of its
    /// time zone.
    fn time(&mut self, node: Option<&ManifestNode>) -> Result<(), UidUnknown> {
        if node.is_some() {
            return Err(UidUnknown::Time);
        }
        self.text.push_str("{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}");
        Ok(())
    }

    /// Prints the fields of a Go `IntOrString`.
    fn int_or_string(&mut self, node: Option<&ManifestNode>) {
        let text = node.and_then(ManifestNode::as_str);
        let number = node.and_then(ManifestNode::as_int).unwrap_or_default();
        self.append(format_args!(
            "{{Type:(intstr.Type){} IntVal:(int32){number} StrVal:(string){}}}",
            u8::from(text.is_some()),
            text.unwrap_or_default()
        ));
    }

    /// Prints embedded JSON of a YAML file, as the kubelet converts it. In a JSON file it is an error, because the tree does
    /// not have the bytes of the file.
    fn raw(&mut self, node: Option<&ManifestNode>) -> Result<(), UidUnknown> {
        self.text.push_str("{Raw:([]uint8)");
        match node {
            None => self.text.push_str("<nil>"),
            Some(_) if self.json => return Err(UidUnknown::JsonManagedFields),
            Some(node) => self.numbers(json_text(node).as_bytes()),
        }
        self.text.push('}');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(quantity: &Quantity) -> String {
        let mut printer = PodPrinter { text: String::new(), minor: 36, json: false };
        printer.quantity(Some(quantity));
        printer.text
    }

    fn parsed(text: &str) -> Quantity {
        Quantity::parse(text).unwrap_or_else(|_| panic!("{text} is a quantity"))
    }

    /// Returns the printed text of a quantity in the small form. `written` is the text that the kubelet keeps.
    fn small(value: i64, scale: i32, written: &str, format: &str) -> String {
        format!(
            "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} d:(resource.infDecAmount){{Dec:(*inf.Dec)<nil>}} s:(string){written} Format:(resource.Format){format}}}"
        )
    }

    /// Returns the printed text of a quantity in the large form.
    fn large(negative: bool, words: &str, scale: i32, format: &str) -> String {
        format!(
            "{{i:(resource.int64Amount){{value:(int64)0 scale:(resource.Scale)0}} d:(resource.infDecAmount){{Dec:(*inf.Dec){{unscaled:(big.Int){{neg:(bool){negative} abs:(big.nat){words}}} scale:(inf.Scale){scale}}}}} s:(string) Format:(resource.Format){format}}}"
        )
    }

    const SI: &str = "DecimalSI";
    const BINARY: &str = "BinarySI";
    const EXPONENT: &str = "DecimalExponent";

    #[test]
    fn a_small_quantity_prints_value_and_scale_and_keeps_its_canonical_text() {
        for (text, value, scale, written, format) in [
            ("0", 0, 0, "0", SI),
            ("1", 1, 0, "1", SI),
            ("+1", 1, 0, "+1", SI),
            ("-1", -1, 0, "-1", SI),
            ("01", 1, 0, "01", SI),
            ("1.", 1, 0, "1.", SI),
            ("1000", 1000, 0, "", SI),
            ("100m", 100, -3, "100m", SI),
            ("1n", 1, -9, "1n", SI),
            ("1u", 1, -6, "1u", SI),
            ("1G", 1, 9, "1G", SI),
            ("1.5k", 15, 2, "", SI),
            ("0.5", 5, -1, "", SI),
            (".5", 5, -1, "", SI),
            ("0.25", 25, -2, "", SI),
            ("1e3", 1, 3, "1e3", EXPONENT),
            ("1E3", 1, 3, "1E3", EXPONENT),
            ("-5e-3", -5, -3, "-5e-3", EXPONENT),
            ("100Mi", 104_857_600, 0, "100Mi", BINARY),
            ("64Mi", 67_108_864, 0, "", BINARY),
            ("8Gi", 8_589_934_592, 0, "", BINARY),
            ("1Gi", 1_073_741_824, 0, "1Gi", BINARY),
            ("999999999999999999", 999_999_999_999_999_999, 0, "999999999999999999", SI),
        ] {
            assert_eq!(printed(&parsed(text)), small(value, scale, written, format), "{text}");
        }
    }

    #[test]
    fn a_large_quantity_prints_a_decimal_with_nine_places() {
        for (text, negative, words, scale, format) in [
            ("1.5Gi", false, "[1610612736000000000]", 9, BINARY),
            ("0.5Mi", false, "[524288000000000]", 9, BINARY),
            ("0.0001Ki", false, "[102400000]", 9, SI),
            ("0.1n", false, "[1]", 9, SI),
            ("-0.1n", true, "[1]", 9, SI),
            ("0.0000000000", false, "<nil>", 10, SI),
            ("1000000000000000000", false, "[11515845246265065472 54210108]", 9, SI),
            ("1Ei", false, "[0 62500000]", 9, BINARY),
            ("8Ei", false, "[9223372036854775807]", 0, BINARY),
        ] {
            assert_eq!(printed(&parsed(text)), large(negative, words, scale, format), "{text}");
        }
    }

    #[test]
    fn resource_lists_are_rounded_to_thousandths() {
        for (text, value, scale, written) in [
            ("100m", 100, -3, "100m"),
            ("1u", 1, -3, ""),
            ("-1u", -1, -3, ""),
            ("1500u", 2, -3, ""),
            ("0", 0, 0, "0"),
        ] {
            assert_eq!(printed(&parsed(text).rounded_to_milli()), small(value, scale, written, SI), "{text}");
        }
        for (text, words, scale, format) in [
            ("1.5Gi", "[1610612736000]", 3, BINARY),
            ("0.1n", "[1]", 3, SI),
            ("0.0000000000", "<nil>", 3, SI),
        ] {
            assert_eq!(
                printed(&parsed(text).rounded_to_milli()),
                large(false, words, scale, format),
                "{text}"
            );
        }
    }

    #[test]
    fn a_sum_prints_no_text_and_an_absent_quantity_is_empty() {
        let sum = parsed("100m").plus(&parsed("200m"));
        assert_eq!(printed(&sum), small(300, -3, "", SI));
        let mut printer = PodPrinter { text: String::new(), minor: 36, json: false };
        printer.quantity(None);
        assert_eq!(printer.text, small(0, 0, "", ""));
    }

    #[test]
    fn an_invalid_quantity_is_never_printed() {
        for text in ["", "Ei", "e-10", "1K", "1GB", "1 Gi", "1e", "--1", "0x10"] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
    }
}
