//! Prints a Pod as the kubelet prints it to hash it (`dump.ForHash`, go-spew's `%#v`).
//!
//! Type names and every absent field are part of the text, so that a release that knows one field more prints another
//! text for each pod.

use std::fmt::Write;

use super::NotTold;
use super::layout::{Field, Kind, Layout, Place};
use crate::manifests::quantity::{Amount, Quantity};
use crate::manifests::reader::json_text;
use crate::manifests::tree::{Entry, Map, Node, Value};

/// The text of a Pod.
pub fn print(layout: &Layout, pod: &Node, minor: u8, json: bool) -> Result<String, NotTold> {
    let mut printer = Printer { text: String::with_capacity(16 << 10), minor, json };
    printer.text.push_str("(*core.Pod)");
    printer.object(layout, Some(pod))?;
    Ok(printer.text)
}

/// Digits beyond which a number is not worth converting to base 2^64.
const MOST_DIGITS: usize = 20_000;

struct Printer {
    text: String,
    minor: u8,
    /// The file is JSON, so that text within it counts as it is written.
    json: bool,
}

impl Printer {
    fn object(&mut self, layout: &Layout, node: Option<&Node>) -> Result<(), NotTold> {
        self.text.push('{');
        let minor = self.minor;
        for (number, field) in layout.fields.iter().filter(|field| field.known_in(minor)).enumerate() {
            if number > 0 {
                self.text.push(' ');
            }
            self.field(field, node)?;
        }
        self.text.push('}');
        Ok(())
    }

    fn field(&mut self, field: &Field, parent: Option<&Node>) -> Result<(), NotTold> {
        self.text.push_str(field.name);
        self.text.push_str(":(");
        self.text.push_str(field.ty);
        self.text.push(')');
        let node = match field.place {
            Place::Key(key) => parent.and_then(|parent| parent.get(key)),
            Place::Here => parent,
            Place::Nowhere => None,
        };
        self.value(&field.kind, node)
    }

    fn value(&mut self, kind: &Kind, node: Option<&Node>) -> Result<(), NotTold> {
        match kind {
            Kind::Str => self.text.push_str(node.and_then(Node::as_str).unwrap_or_default()),
            Kind::Bool => {
                let truth = node.and_then(Node::as_bool).unwrap_or_default();
                self.text.push_str(if truth { "true" } else { "false" });
            }
            Kind::Int => self.number(node.and_then(Node::as_int).unwrap_or_default()),
            Kind::Quantity => return self.quantity(node.and_then(Node::as_quantity)),
            Kind::Time => return self.time(node),
            Kind::IntOrString => self.int_or_string(node),
            Kind::Raw => return self.raw(node),
            Kind::Struct(layout) => return self.object(layout, node),
            Kind::Pointer(to) => match node {
                None => self.text.push_str("<nil>"),
                some => return self.value(to, some),
            },
            Kind::List(item) => match node.and_then(Node::as_list) {
                None => self.text.push_str("<nil>"),
                Some(items) => return self.list(item, items),
            },
            Kind::Map(value) => match node.and_then(Node::as_map) {
                None => self.text.push_str("<nil>"),
                Some(map) => return self.map(value, map),
            },
        }
        Ok(())
    }

    fn number(&mut self, number: i128) {
        self.formatted(format_args!("{number}"));
    }

    fn formatted(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String does not fail.
        let _ = self.text.write_fmt(text);
    }

    fn list(&mut self, item: &Kind, items: &[Node]) -> Result<(), NotTold> {
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

    fn map(&mut self, value: &Kind, map: &Map) -> Result<(), NotTold> {
        let mut entries: Vec<&Entry> = map.entries().iter().collect();
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

    fn quantity(&mut self, amount: Option<&Quantity>) -> Result<(), NotTold> {
        let zero = Quantity::ZERO;
        let quantity = amount.unwrap_or(&zero);
        let (value, scale) = match quantity.amount() {
            Amount::Small { value, scale } => (*value, *scale),
            Amount::Large(_) => (0, 0),
        };
        self.formatted(format_args!(
            "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} d:(resource.infDecAmount){{Dec:(*inf.Dec)"
        ));
        match quantity.amount() {
            Amount::Small { .. } => self.text.push_str("<nil>"),
            Amount::Large(number) if number.len() > MOST_DIGITS => return Err(NotTold::Digits),
            Amount::Large(number) => {
                self.formatted(format_args!(
                    "{{unscaled:(big.Int){{neg:(bool){} abs:(big.nat)",
                    number.negative
                ));
                self.words(&number.words());
                self.formatted(format_args!("}} scale:(inf.Scale){}}}", number.scale));
            }
        }
        self.formatted(format_args!(
            "}} s:(string){} Format:(resource.Format){}}}",
            quantity.written(),
            quantity.format().name()
        ));
        Ok(())
    }

    fn words(&mut self, words: &[u64]) {
        if words.is_empty() {
            self.text.push_str("<nil>");
            return;
        }
        self.spaced(words);
    }

    fn spaced<T: std::fmt::Display>(&mut self, numbers: &[T]) {
        self.text.push('[');
        for (place, number) in numbers.iter().enumerate() {
            let blank = if place > 0 { " " } else { "" };
            self.formatted(format_args!("{blank}{number}"));
        }
        self.text.push(']');
    }

    /// A time is printed with the whole table of the process's time zone.
    fn time(&mut self, node: Option<&Node>) -> Result<(), NotTold> {
        if node.is_some() {
            return Err(NotTold::Time);
        }
        self.text.push_str("{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}");
        Ok(())
    }

    fn int_or_string(&mut self, node: Option<&Node>) {
        let text = node.and_then(Node::as_str);
        let number = node.and_then(Node::as_int).unwrap_or_default();
        self.formatted(format_args!(
            "{{Type:(intstr.Type){} IntVal:(int32){number} StrVal:(string){}}}",
            u8::from(text.is_some()),
            text.unwrap_or_default()
        ));
    }

    /// JSON within the Pod: the file's own where it is JSON, else what converting the YAML gives.
    fn raw(&mut self, node: Option<&Node>) -> Result<(), NotTold> {
        match node {
            None => self.text.push_str("<nil>"),
            Some(Node { value: Value::Null, .. }) => self.spaced(b"null"),
            Some(_) if self.json => return Err(NotTold::Raw),
            Some(node) => self.spaced(json_text(node).as_bytes()),
        }
        Ok(())
    }
}
