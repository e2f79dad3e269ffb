//! The derive macro of `Rename`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Fields, Ident, Member, Result, Variant};

/// What happens to a field, by the word before it in `#[names(…)]`, and the methods that are called at the end.
#[derive(Default)]
struct Named {
    fields: Vec<(Ident, Ident)>,
    then: Vec<Ident>,
}

impl Named {
    fn read(item: &DeriveInput) -> Result<Self> {
        let mut named = Self::default();
        for attribute in item.attrs.iter().filter(|attribute| attribute.path().is_ident("names")) {
            attribute.parse_nested_meta(|group| {
                let word = group.path.require_ident()?.clone();
                group.parse_nested_meta(|one| {
                    let name = one.path.require_ident()?.clone();
                    if word == "then" {
                        named.then.push(name);
                    } else {
                        named.fields.push((name, word.clone()));
                    }
                    Ok(())
                })
            })?;
        }
        Ok(named)
    }

    /// Returns the statement for a field.
    fn statement(&self, name: &Ident, field: &Ident) -> TokenStream {
        let word = self.fields.iter().find(|(known, _)| known == name).map(|(_, word)| word);
        let path = quote!(::plegctl_base::report::rename);
        match word {
            None => quote!(#path::Rename::rename(#field, replace);),
            Some(word) if word == "kept" => quote!(let _ = #field;),
            Some(word) if word == "emptied" => quote!(*#field = ::core::default::Default::default();),
            Some(kind) => quote!(#path::RenameAs::rename_as(#field, #path::NameKind::#kind, replace);),
        }
    }

    /// Returns the arm of a `match` for a struct, or for a value of an enum.
    fn arm(&self, path: &TokenStream, ident: &Ident, fields: &Fields) -> TokenStream {
        let members: Vec<Member> = fields.members().collect();
        let bindings = (0..members.len()).map(|number| format_ident!("field_{number}"));
        let bindings: Vec<Ident> = bindings.collect();
        let statements = members.iter().zip(&bindings).map(|(member, binding)| match member {
            Member::Named(name) => self.statement(name, binding),
            Member::Unnamed(_) => self.statement(ident, binding),
        });
        quote!(#path { #(#members: #bindings),* } => { #(#statements)* })
    }
}

pub fn derive(item: &DeriveInput) -> Result<TokenStream> {
    let named = Named::read(item)?;
    let arms = match &item.data {
        Data::Struct(data) => vec![named.arm(&quote!(Self), &item.ident, &data.fields)],
        Data::Enum(data) => data
            .variants
            .iter()
            .map(|Variant { ident, fields, .. }| named.arm(&quote!(Self::#ident), ident, fields))
            .collect(),
        Data::Union(_) => return Err(Error::new_spanned(&item.ident, "a union has no names")),
    };
    let (ident, then) = (&item.ident, &named.then);
    Ok(quote! {
        impl ::plegctl_base::report::rename::Rename for #ident {
            fn rename(&mut self, replace: ::plegctl_base::report::rename::ReplaceName<'_>) {
                let _ = &replace;
                match self { #(#arms)* }
                #(self.#then();)*
            }
        }
    })
}
