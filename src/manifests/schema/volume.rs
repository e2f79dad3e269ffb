//! Volumes of every type.

use super::Type::{Bool, Int32, Int64, List, Object as Obj, Quantity, Str};
use super::container::{FIELD_REF, RESOURCE_CLAIM, RESOURCE_FIELD_REF};
use super::meta::{LABEL_SELECTOR, LOCAL_REFERENCE, OBJECT_META};
use super::{Object, QUANTITIES, STRING_MAP, STRINGS, field, newer};

pub static VOLUME: Object = Object {
    name: "Volume",
    fields: &[
        field("name", Str),
        field("hostPath", Obj(&HOST_PATH)),
        field("emptyDir", Obj(&EMPTY_DIR)),
        field("gcePersistentDisk", Obj(&GCE_DISK)),
        field("awsElasticBlockStore", Obj(&AWS_DISK)),
        field("gitRepo", Obj(&GIT_REPO)),
        field("secret", Obj(&SECRET)),
        field("nfs", Obj(&NFS)),
        field("iscsi", Obj(&ISCSI)),
        field("glusterfs", Obj(&GLUSTERFS)),
        field("persistentVolumeClaim", Obj(&CLAIM)),
        field("rbd", Obj(&RBD)),
        field("flexVolume", Obj(&FLEX)),
        field("cinder", Obj(&CINDER)),
        field("cephfs", Obj(&CEPHFS)),
        field("flocker", Obj(&FLOCKER)),
        field("downwardAPI", Obj(&DOWNWARD_API)),
        field("fc", Obj(&FC)),
        field("azureFile", Obj(&AZURE_FILE)),
        field("configMap", Obj(&CONFIG_MAP)),
        field("vsphereVolume", Obj(&VSPHERE)),
        field("quobyte", Obj(&QUOBYTE)),
        field("azureDisk", Obj(&AZURE_DISK)),
        field("photonPersistentDisk", Obj(&PHOTON)),
        field("projected", Obj(&PROJECTED)),
        field("portworxVolume", Obj(&PORTWORX)),
        field("scaleIO", Obj(&SCALE_IO)),
        field("storageos", Obj(&STORAGEOS)),
        field("csi", Obj(&CSI)),
        field("ephemeral", Obj(&EPHEMERAL)),
        newer(31, "image", Obj(&IMAGE)).behind("ImageVolume", 35),
    ],
};

static HOST_PATH: Object =
    Object { name: "HostPathVolumeSource", fields: &[field("path", Str), field("type", Str)] };

static EMPTY_DIR: Object =
    Object { name: "EmptyDirVolumeSource", fields: &[field("medium", Str), field("sizeLimit", Quantity)] };

static GCE_DISK: Object = Object {
    name: "GCEPersistentDiskVolumeSource",
    fields: &[field("pdName", Str), field("fsType", Str), field("partition", Int32), field("readOnly", Bool)],
};

static AWS_DISK: Object = Object {
    name: "AWSElasticBlockStoreVolumeSource",
    fields: &[
        field("volumeID", Str),
        field("fsType", Str),
        field("partition", Int32),
        field("readOnly", Bool),
    ],
};

static GIT_REPO: Object = Object {
    name: "GitRepoVolumeSource",
    fields: &[field("repository", Str), field("revision", Str), field("directory", Str)],
};

static KEY_TO_PATH: Object =
    Object { name: "KeyToPath", fields: &[field("key", Str), field("path", Str), field("mode", Int32)] };

static SECRET: Object = Object {
    name: "SecretVolumeSource",
    fields: &[
        field("secretName", Str),
        field("items", List(&Obj(&KEY_TO_PATH))),
        field("defaultMode", Int32),
        field("optional", Bool),
    ],
};

static CONFIG_MAP: Object = Object {
    name: "ConfigMapVolumeSource",
    fields: &[
        field("name", Str),
        field("items", List(&Obj(&KEY_TO_PATH))),
        field("defaultMode", Int32),
        field("optional", Bool),
    ],
};

static NFS: Object = Object {
    name: "NFSVolumeSource",
    fields: &[field("server", Str), field("path", Str), field("readOnly", Bool)],
};

static ISCSI: Object = Object {
    name: "ISCSIVolumeSource",
    fields: &[
        field("targetPortal", Str),
        field("iqn", Str),
        field("lun", Int32),
        field("iscsiInterface", Str),
        field("fsType", Str),
        field("readOnly", Bool),
        field("portals", STRINGS),
        field("chapAuthDiscovery", Bool),
        field("chapAuthSession", Bool),
        field("secretRef", Obj(&LOCAL_REFERENCE)),
        field("initiatorName", Str),
    ],
};

static GLUSTERFS: Object = Object {
    name: "GlusterfsVolumeSource",
    fields: &[field("endpoints", Str), field("path", Str), field("readOnly", Bool)],
};

static CLAIM: Object = Object {
    name: "PersistentVolumeClaimVolumeSource",
    fields: &[field("claimName", Str), field("readOnly", Bool)],
};

static RBD: Object = Object {
    name: "RBDVolumeSource",
    fields: &[
        field("monitors", STRINGS),
        field("image", Str),
        field("fsType", Str),
        field("pool", Str),
        field("user", Str),
        field("keyring", Str),
        field("secretRef", Obj(&LOCAL_REFERENCE)),
        field("readOnly", Bool),
    ],
};

static FLEX: Object = Object {
    name: "FlexVolumeSource",
    fields: &[
        field("driver", Str),
        field("fsType", Str),
        field("secretRef", Obj(&LOCAL_REFERENCE)),
        field("readOnly", Bool),
        field("options", STRING_MAP),
    ],
};

static CINDER: Object = Object {
    name: "CinderVolumeSource",
    fields: &[
        field("volumeID", Str),
        field("fsType", Str),
        field("readOnly", Bool),
        field("secretRef", Obj(&LOCAL_REFERENCE)),
    ],
};

static CEPHFS: Object = Object {
    name: "CephFSVolumeSource",
    fields: &[
        field("monitors", STRINGS),
        field("path", Str),
        field("user", Str),
        field("secretFile", Str),
        field("secretRef", Obj(&LOCAL_REFERENCE)),
        field("readOnly", Bool),
    ],
};

static FLOCKER: Object =
    Object { name: "FlockerVolumeSource", fields: &[field("datasetName", Str), field("datasetUUID", Str)] };

static DOWNWARD_FILE: Object = Object {
    name: "DownwardAPIVolumeFile",
    fields: &[
        field("path", Str),
        field("fieldRef", Obj(&FIELD_REF)),
        field("resourceFieldRef", Obj(&RESOURCE_FIELD_REF)),
        field("mode", Int32),
    ],
};

static DOWNWARD_API: Object = Object {
    name: "DownwardAPIVolumeSource",
    fields: &[field("items", List(&Obj(&DOWNWARD_FILE))), field("defaultMode", Int32)],
};

static FC: Object = Object {
    name: "FCVolumeSource",
    fields: &[
        field("targetWWNs", STRINGS),
        field("lun", Int32),
        field("fsType", Str),
        field("readOnly", Bool),
        field("wwids", STRINGS),
    ],
};

static AZURE_FILE: Object = Object {
    name: "AzureFileVolumeSource",
    fields: &[field("secretName", Str), field("shareName", Str), field("readOnly", Bool)],
};

static VSPHERE: Object = Object {
    name: "VsphereVirtualDiskVolumeSource",
    fields: &[
        field("volumePath", Str),
        field("fsType", Str),
        field("storagePolicyName", Str),
        field("storagePolicyID", Str),
    ],
};

static QUOBYTE: Object = Object {
    name: "QuobyteVolumeSource",
    fields: &[
        field("registry", Str),
        field("volume", Str),
        field("readOnly", Bool),
        field("user", Str),
        field("group", Str),
        field("tenant", Str),
    ],
};

static AZURE_DISK: Object = Object {
    name: "AzureDiskVolumeSource",
    fields: &[
        field("diskName", Str),
        field("diskURI", Str),
        field("cachingMode", Str),
        field("fsType", Str),
        field("readOnly", Bool),
        field("kind", Str),
    ],
};

static PHOTON: Object =
    Object { name: "PhotonPersistentDiskVolumeSource", fields: &[field("pdID", Str), field("fsType", Str)] };

static PORTWORX: Object = Object {
    name: "PortworxVolumeSource",
    fields: &[field("volumeID", Str), field("fsType", Str), field("readOnly", Bool)],
};

static SCALE_IO: Object = Object {
    name: "ScaleIOVolumeSource",
    fields: &[
        field("gateway", Str),
        field("system", Str),
        field("secretRef", Obj(&LOCAL_REFERENCE)),
        field("sslEnabled", Bool),
        field("protectionDomain", Str),
        field("storagePool", Str),
        field("storageMode", Str),
        field("volumeName", Str),
        field("fsType", Str),
        field("readOnly", Bool),
    ],
};

static STORAGEOS: Object = Object {
    name: "StorageOSVolumeSource",
    fields: &[
        field("volumeName", Str),
        field("volumeNamespace", Str),
        field("fsType", Str),
        field("readOnly", Bool),
        field("secretRef", Obj(&LOCAL_REFERENCE)),
    ],
};

static CSI: Object = Object {
    name: "CSIVolumeSource",
    fields: &[
        field("driver", Str),
        field("readOnly", Bool),
        field("fsType", Str),
        field("volumeAttributes", STRING_MAP),
        field("nodePublishSecretRef", Obj(&LOCAL_REFERENCE)),
    ],
};

static IMAGE: Object =
    Object { name: "ImageVolumeSource", fields: &[field("reference", Str), field("pullPolicy", Str)] };

static EPHEMERAL: Object =
    Object { name: "EphemeralVolumeSource", fields: &[field("volumeClaimTemplate", Obj(&CLAIM_TEMPLATE))] };

static CLAIM_TEMPLATE: Object = Object {
    name: "PersistentVolumeClaimTemplate",
    fields: &[field("metadata", Obj(&OBJECT_META)), field("spec", Obj(&CLAIM_SPEC))],
};

static CLAIM_SPEC: Object = Object {
    name: "PersistentVolumeClaimSpec",
    fields: &[
        field("accessModes", STRINGS),
        field("selector", Obj(&LABEL_SELECTOR)),
        field("resources", Obj(&CLAIM_RESOURCES)),
        field("volumeName", Str),
        field("storageClassName", Str),
        field("volumeMode", Str),
        field("dataSource", Obj(&LOCAL_DATA_SOURCE)),
        field("dataSourceRef", Obj(&DATA_SOURCE)),
        newer(29, "volumeAttributesClassName", Str),
    ],
};

static CLAIM_RESOURCES: Object = Object {
    name: "VolumeResourceRequirements",
    fields: &[
        field("limits", QUANTITIES),
        field("requests", QUANTITIES),
        super::older(29, "claims", List(&Obj(&RESOURCE_CLAIM))),
    ],
};

static LOCAL_DATA_SOURCE: Object = Object {
    name: "TypedLocalObjectReference",
    fields: &[field("apiGroup", Str), field("kind", Str), field("name", Str)],
};

static DATA_SOURCE: Object = Object {
    name: "TypedObjectReference",
    fields: &[field("apiGroup", Str), field("kind", Str), field("name", Str), field("namespace", Str)],
};

static PROJECTED: Object = Object {
    name: "ProjectedVolumeSource",
    fields: &[field("sources", List(&Obj(&PROJECTION))), field("defaultMode", Int32)],
};

static PROJECTION: Object = Object {
    name: "VolumeProjection",
    fields: &[
        field("secret", Obj(&NAMED_PROJECTION)),
        field("downwardAPI", Obj(&DOWNWARD_PROJECTION)),
        field("configMap", Obj(&NAMED_PROJECTION)),
        field("serviceAccountToken", Obj(&TOKEN_PROJECTION)),
        newer(29, "clusterTrustBundle", Obj(&BUNDLE_PROJECTION)),
        newer(34, "podCertificate", Obj(&CERTIFICATE_PROJECTION)),
    ],
};

static NAMED_PROJECTION: Object = Object {
    name: "ConfigMapProjection",
    fields: &[field("name", Str), field("items", List(&Obj(&KEY_TO_PATH))), field("optional", Bool)],
};

static DOWNWARD_PROJECTION: Object =
    Object { name: "DownwardAPIProjection", fields: &[field("items", List(&Obj(&DOWNWARD_FILE)))] };

static TOKEN_PROJECTION: Object = Object {
    name: "ServiceAccountTokenProjection",
    fields: &[field("audience", Str), field("expirationSeconds", Int64), field("path", Str)],
};

static BUNDLE_PROJECTION: Object = Object {
    name: "ClusterTrustBundleProjection",
    fields: &[
        field("name", Str),
        field("signerName", Str),
        field("labelSelector", Obj(&LABEL_SELECTOR)),
        field("optional", Bool),
        field("path", Str),
    ],
};

static CERTIFICATE_PROJECTION: Object = Object {
    name: "PodCertificateProjection",
    fields: &[
        field("signerName", Str),
        field("keyType", Str),
        field("maxExpirationSeconds", Int32),
        field("credentialBundlePath", Str),
        field("keyPath", Str),
        field("certificateChainPath", Str),
        newer(35, "userAnnotations", STRING_MAP),
    ],
};
