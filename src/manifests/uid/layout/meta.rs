//! Metadata and selectors.

use super::PrintKind::{Bool, Int, List, Map, Pointer, Raw, Str, Struct, Time};
use super::{Layout, field, inline};

pub static FIELDS_V1: Layout = Layout { fields: &[inline("Raw", "[]uint8", Raw)] };

pub static LABEL_SELECTOR: Layout = Layout {
    fields: &[
        field("MatchLabels", "matchLabels", "map[string]string", Map(&Str)),
        field(
            "MatchExpressions",
            "matchExpressions",
            "[]v1.LabelSelectorRequirement",
            List(&Struct(&LABEL_SELECTOR_REQUIREMENT)),
        ),
    ],
};

pub static LABEL_SELECTOR_REQUIREMENT: Layout = Layout {
    fields: &[
        field("Key", "key", "string", Str),
        field("Operator", "operator", "v1.LabelSelectorOperator", Str),
        field("Values", "values", "[]string", List(&Str)),
    ],
};

pub static MANAGED_FIELDS_ENTRY: Layout = Layout {
    fields: &[
        field("Manager", "manager", "string", Str),
        field("Operation", "operation", "v1.ManagedFieldsOperationType", Str),
        field("APIVersion", "apiVersion", "string", Str),
        field("Time", "time", "*v1.Time", Pointer(&Time)),
        field("FieldsType", "fieldsType", "string", Str),
        field("FieldsV1", "fieldsV1", "*v1.FieldsV1", Pointer(&Struct(&FIELDS_V1))),
        field("Subresource", "subresource", "string", Str),
    ],
};

pub static OBJECT_META: Layout = Layout {
    fields: &[
        field("Name", "name", "string", Str),
        field("GenerateName", "generateName", "string", Str),
        field("Namespace", "namespace", "string", Str),
        field("SelfLink", "selfLink", "string", Str),
        field("UID", "uid", "types.UID", Str),
        field("ResourceVersion", "resourceVersion", "string", Str),
        field("Generation", "generation", "int64", Int),
        field("CreationTimestamp", "creationTimestamp", "v1.Time", Time),
        field("DeletionTimestamp", "deletionTimestamp", "*v1.Time", Pointer(&Time)),
        field("DeletionGracePeriodSeconds", "deletionGracePeriodSeconds", "*int64", Pointer(&Int)),
        field("Labels", "labels", "map[string]string", Map(&Str)),
        field("Annotations", "annotations", "map[string]string", Map(&Str)),
        field("OwnerReferences", "ownerReferences", "[]v1.OwnerReference", List(&Struct(&OWNER_REFERENCE))),
        field("Finalizers", "finalizers", "[]string", List(&Str)),
        field(
            "ManagedFields",
            "managedFields",
            "[]v1.ManagedFieldsEntry",
            List(&Struct(&MANAGED_FIELDS_ENTRY)),
        ),
    ],
};

pub static OWNER_REFERENCE: Layout = Layout {
    fields: &[
        field("APIVersion", "apiVersion", "string", Str),
        field("Kind", "kind", "string", Str),
        field("Name", "name", "string", Str),
        field("UID", "uid", "types.UID", Str),
        field("Controller", "controller", "*bool", Pointer(&Bool)),
        field("BlockOwnerDeletion", "blockOwnerDeletion", "*bool", Pointer(&Bool)),
    ],
};

pub static TYPE_META: Layout = Layout {
    fields: &[field("Kind", "kind", "string", Str), field("APIVersion", "apiVersion", "string", Str)],
};
