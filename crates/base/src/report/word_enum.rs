//! A macro for enums whose values have one word each.

/// Defines an enum and the function that returns the word of a value, which is also how the value is printed. The values
/// of a `json enum` have the same words in JSON. `ALL` at the end adds the list of all values.
#[macro_export]
macro_rules! word_enum {
    ($(#[$about:meta])* $vis:vis json enum $name:ident: $function:ident {
        $($(#[$of_value:meta])* $value:ident = $word:literal,)*
    } $($all:ident)?) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, $crate::report::rename::Rename)]
        #[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
        $vis enum $name {
            $($(#[$of_value])* #[serde(rename = $word)] $value,)*
        }

        $crate::word_enum! { @words $name: $function { $($value = $word,)* } $($all)? }
    };
    ($(#[$about:meta])* $vis:vis enum $name:ident: $function:ident {
        $($(#[$of_value:meta])* $value:ident = $word:literal,)*
    } $($all:ident)?) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$of_value])* $value,)*
        }

        $crate::word_enum! { @words $name: $function { $($value = $word,)* } $($all)? }
    };
    (@words $name:ident: $function:ident { $($value:ident = $word:literal,)* } ALL) => {
        $crate::word_enum! { @words $name: $function { $($value = $word,)* } }

        impl $name {
            /// All values, in the order in which they are defined.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$value),*];
        }
    };
    (@words $name:ident: $function:ident { $($value:ident = $word:literal,)* }) => {
        impl $name {
            /// Returns the word for the value.
            pub const fn $function(self) -> &'static str {
                match self {
                    $(Self::$value => $word,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.$function())
            }
        }
    };
}
