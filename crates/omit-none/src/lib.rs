//! `#[omit_none]`: an optional field without a value is absent in JSON.

#![warn(missing_docs)]

use proc_macro::TokenStream;
use quote::ToTokens;
use syn::{Data, DeriveInput, Error, Type, parse_macro_input, parse_quote};

/// Adds `#[serde(skip_serializing_if = "Option::is_none")]` to each field of a struct that is an `Option`. It stands above the
/// derives.
#[proc_macro_attribute]
pub fn omit_none(_: TokenStream, item: TokenStream) -> TokenStream {
    let mut item = parse_macro_input!(item as DeriveInput);
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
