//! Metadata, and small types used in several parts of a Pod.

use super::Type::{Any, Bool, Int64, List, Object as Obj, Str, Time};
use super::{Object, STRING_MAP, STRINGS, field};

pub static OBJECT_META: Object = Object {
    name: "ObjectMeta",
    fields: &[
        field("name", Str),
        field("generateName", Str),
        field("namespace", Str),
        field("selfLink", Str),
        field("uid", Str),
        field("resourceVersion", Str),
        field("generation", Int64),
        field("creationTimestamp", Time),
        field("deletionTimestamp", Time),
        field("deletionGracePeriodSeconds", Int64),
        field("labels", STRING_MAP),
        field("annotations", STRING_MAP),
        field("ownerReferences", List(&Obj(&OWNER_REFERENCE))),
        field("finalizers", STRINGS),
        field("managedFields", List(&Obj(&MANAGED_FIELDS))),
    ],
};

static OWNER_REFERENCE: Object = Object {
    name: "OwnerReference",
    fields: &[
        field("apiVersion", Str),
        field("kind", Str),
        field("name", Str),
        field("uid", Str),
        field("controller", Bool),
        field("blockOwnerDeletion", Bool),
    ],
};

static MANAGED_FIELDS: Object = Object {
    name: "ManagedFieldsEntry",
    fields: &[
        field("manager", Str),
        field("operation", Str),
        field("apiVersion", Str),
        field("time", Time),
        field("fieldsType", Str),
        field("fieldsV1", Any),
        field("subresource", Str),
    ],
};

pub static LABEL_SELECTOR: Object = Object {
    name: "LabelSelector",
    fields: &[
        field("matchLabels", STRING_MAP),
        field("matchExpressions", List(&Obj(&LABEL_SELECTOR_REQUIREMENT))),
    ],
};

static LABEL_SELECTOR_REQUIREMENT: Object = Object {
    name: "LabelSelectorRequirement",
    fields: &[field("key", Str), field("operator", Str), field("values", STRINGS)],
};

pub static LOCAL_REFERENCE: Object = Object { name: "LocalObjectReference", fields: &[field("name", Str)] };
