//! Structs that are read from an object and nothing else, and enums that are read from a word and nothing else.
//!
//! What serde derives takes an array too, its elements for the fields in their order, and `{"ok":null}` for `"ok"`: a
//! line of another kind would be misread where it must be refused.

/// Implements `Deserialize` and `Serialize` for structs and tagged enums that derive both with
/// `#[serde(remote = "Self")]`: only an object is read as one of them. With `read` before the names: for those that
/// derive `Deserialize` alone.
#[macro_export]
macro_rules! only_objects {
    ($($name:ident),+ $(,)?) => {
        $crate::only_objects!(read $($name),+);
        $($crate::written_as_derived!($name);)+
    };
    (read $($name:ident),+) => {$(
        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::core::result::Result<Self, D::Error> {
                struct FromObject;
                impl<'de> ::serde::de::Visitor<'de> for FromObject {
                    type Value = $name;

                    fn expecting(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: ::serde::de::MapAccess<'de>>(
                        self,
                        fields: A,
                    ) -> ::core::result::Result<$name, A::Error> {
                        // What was derived, which goes before the trait's.
                        $name::deserialize(::serde::de::value::MapAccessDeserializer::new(fields))
                    }
                }
                deserializer.deserialize_map(FromObject)
            }
        }
    )+};
}

/// The same for enums without fields: only the name is read.
#[macro_export]
macro_rules! only_words {
    ($($name:ident),+ $(,)?) => {$(
        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::core::result::Result<Self, D::Error> {
                struct FromWord;
                impl ::serde::de::Visitor<'_> for FromWord {
                    type Value = $name;

                    fn expecting(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                        f.write_str("a string")
                    }

                    fn visit_str<E: ::serde::de::Error>(
                        self,
                        word: &str,
                    ) -> ::core::result::Result<$name, E> {
                        // What was derived, which goes before the trait's.
                        $name::deserialize(::serde::de::value::StrDeserializer::new(word))
                    }
                }
                deserializer.deserialize_str(FromWord)
            }
        }

        $crate::written_as_derived!($name);
    )+};
}

/// What `only_objects` and `only_words` have in common.
#[doc(hidden)]
#[macro_export]
macro_rules! written_as_derived {
    ($name:ident) => {
        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::core::result::Result<S::Ok, S::Error> {
                $name::serialize(self, serializer)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(Debug, Deserialize, PartialEq, Serialize)]
    #[serde(remote = "Self")]
    struct Pair {
        number: u8,
        word: Word,
    }

    #[derive(Debug, Deserialize, PartialEq, Serialize)]
    #[serde(remote = "Self", rename_all = "lowercase")]
    enum Word {
        One,
    }

    only_objects!(Pair);
    only_words!(Word);

    #[test]
    fn an_array_is_no_struct_and_an_object_is_no_word() {
        let read = |text: &str| serde_json::from_str::<Pair>(text).map_err(|e| e.to_string());
        let text = r#"{"number":1,"word":"one"}"#;
        let pair = read(text).expect("an object");
        assert_eq!(serde_json::to_string(&pair).expect("plain"), text);
        for (text, told) in [
            (r#"[1,"one"]"#, "invalid type: sequence, expected an object"),
            (
                r#"{"number":1,"word":{"one":null}}"#,
                "invalid type: map, expected a string",
            ),
            (r#"{"number":1,"word":"two"}"#, "unknown variant `two`"),
        ] {
            let error = read(text).expect_err("no pair");
            assert!(error.contains(told), "{error}");
        }
    }
}
