//! `#[omit_none]`: an optional field without a value is absent in JSON. `#[document_part]`: the same for a part of a document of
//! plegctl. `#[derive(Rename)]`: the names in a value can be replaced.

#![warn(missing_docs)]

mod rename;

use proc_macro::TokenStream;
use quote::ToTokens;
use syn::{Data, DeriveInput, Error, Field, Type, parse_macro_input, parse_quote};

/// Adds `#[serde(skip_serializing_if = "Option::is_none")]` to each field of a struct that is an `Option`. It stands above the
/// derives.
#[proc_macro_attribute]
pub fn omit_none(_: TokenStream, item: TokenStream) -> TokenStream {
    without_absent(parse_macro_input!(item as DeriveInput))
}

/// Makes a struct a part of a document: its fields have names in camel case, an optional one without a value is absent, a pod is
/// there without its unknown names, and the tests have its schema. It stands above the derives.
#[proc_macro_attribute]
pub fn document_part(_: TokenStream, item: TokenStream) -> TokenStream {
    let mut item = parse_macro_input!(item as DeriveInput);
    item.attrs.push(parse_quote!(#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]));
    item.attrs.push(parse_quote!(#[serde(rename_all = "camelCase")]));
    if let Data::Struct(data) = &mut item.data {
        let is_pod = |field: &&mut Field| field.ty.to_token_stream().to_string() == "Option < PodRef >";
        for field in data.fields.iter_mut().filter(is_pod) {
            field.attrs.push(parse_quote!(#[serde(default, with = "plegctl_base::report::optional_pod")]));
            let names = "Option<plegctl_base::report::optional_pod::KnownNames<'static>>";
            field.attrs.push(parse_quote!(#[cfg_attr(feature = "testing", schemars(with = #names))]));
        }
    }
    without_absent(item)
}

/// Derives `Rename`, the trait in `crates/base/src/report/rename.rs`. Each field is renamed by its own type, except those that
/// `#[names(…)]` lists: `Id(field)` is a text of this kind, `emptied(field)` gets the default value, and `kept(field)` stays.
/// `then(method)` is called at the end. A field without a name has the name of its type, or of its value of an enum.
#[proc_macro_derive(Rename, attributes(names))]
pub fn rename(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    match rename::derive(&item) {
        Ok(code) => code.into(),
        Err(why) => why.into_compile_error().into(),
    }
}

fn without_absent(mut item: DeriveInput) -> TokenStream {
    let Data::Struct(data) = &mut item.data else {
        return Error::new_spanned(&item.ident, "this is not a struct").into_compile_error().into();
    };
    for field in data.fields.iter_mut().filter(|field| is_option(&field.ty)) {
        field.attrs.push(parse_quote!(#[serde(skip_serializing_if = "Option::is_none")]));
    }
    item.into_token_stream().into()
}

fn is_option(field: &Type) -> bool {
    let Type::Path(path) = field else { return false };
    path.path.segments.last().is_some_and(|last| last.ident == "Option")
}
