//! Volumes of every type.

use super::PrintKind::{Bool, Int, List, Map, Pointer, Quantity, Str, Struct};
use super::container::{
    LOCAL_OBJECT_REFERENCE, OBJECT_FIELD_SELECTOR, RESOURCE_FIELD_SELECTOR, RESOURCE_REQUIREMENTS,
};
use super::meta::{LABEL_SELECTOR, OBJECT_META};
use super::{Layout, field, inline};

pub static AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("VolumeID", "volumeID", "string", Str),
        field("FSType", "fsType", "string", Str),
        field("Partition", "partition", "int32", Int),
        field("ReadOnly", "readOnly", "bool", Bool),
    ],
};

pub static AZURE_DISK_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("DiskName", "diskName", "string", Str),
        field("DataDiskURI", "diskURI", "string", Str),
        field("CachingMode", "cachingMode", "*core.AzureDataDiskCachingMode", Pointer(&Str)),
        field("FSType", "fsType", "*string", Pointer(&Str)),
        field("ReadOnly", "readOnly", "*bool", Pointer(&Bool)),
        field("Kind", "kind", "*core.AzureDataDiskKind", Pointer(&Str)),
    ],
};

pub static AZURE_FILE_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("SecretName", "secretName", "string", Str),
        field("ShareName", "shareName", "string", Str),
        field("ReadOnly", "readOnly", "bool", Bool),
    ],
};

pub static CSI_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("Driver", "driver", "string", Str),
        field("ReadOnly", "readOnly", "*bool", Pointer(&Bool)),
        field("FSType", "fsType", "*string", Pointer(&Str)),
        field("VolumeAttributes", "volumeAttributes", "map[string]string", Map(&Str)),
        field(
            "NodePublishSecretRef",
            "nodePublishSecretRef",
            "*core.LocalObjectReference",
            Pointer(&Struct(&LOCAL_OBJECT_REFERENCE)),
        ),
    ],
};

pub static CEPH_FS_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("Monitors", "monitors", "[]string", List(&Str)),
        field("Path", "path", "string", Str),
        field("User", "user", "string", Str),
        field("SecretFile", "secretFile", "string", Str),
        field(
            "SecretRef",
            "secretRef",
            "*core.LocalObjectReference",
            Pointer(&Struct(&LOCAL_OBJECT_REFERENCE)),
        ),
        field("ReadOnly", "readOnly", "bool", Bool),
    ],
};

pub static CINDER_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("VolumeID", "volumeID", "string", Str),
        field("FSType", "fsType", "string", Str),
        field("ReadOnly", "readOnly", "bool", Bool),
        field(
            "SecretRef",
            "secretRef",
            "*core.LocalObjectReference",
            Pointer(&Struct(&LOCAL_OBJECT_REFERENCE)),
        ),
    ],
};

pub static CLUSTER_TRUST_BUNDLE_PROJECTION: Layout = Layout {
    fields: &[
        field("Name", "name", "*string", Pointer(&Str)),
        field("SignerName", "signerName", "*string", Pointer(&Str)),
        field("LabelSelector", "labelSelector", "*v1.LabelSelector", Pointer(&Struct(&LABEL_SELECTOR))),
        field("Optional", "optional", "*bool", Pointer(&Bool)),
        field("Path", "path", "string", Str),
    ],
};

pub static CONFIG_MAP_PROJECTION: Layout = Layout {
    fields: &[
        inline("LocalObjectReference", "core.LocalObjectReference", Struct(&LOCAL_OBJECT_REFERENCE)),
        field("Items", "items", "[]core.KeyToPath", List(&Struct(&KEY_TO_PATH))),
        field("Optional", "optional", "*bool", Pointer(&Bool)),
    ],
};

pub static CONFIG_MAP_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        inline("LocalObjectReference", "core.LocalObjectReference", Struct(&LOCAL_OBJECT_REFERENCE)),
        field("Items", "items", "[]core.KeyToPath", List(&Struct(&KEY_TO_PATH))),
        field("DefaultMode", "defaultMode", "*int32", Pointer(&Int)),
        field("Optional", "optional", "*bool", Pointer(&Bool)),
    ],
};

pub static DOWNWARD_API_PROJECTION: Layout = Layout {
    fields: &[field(
        "Items",
        "items",
        "[]core.DownwardAPIVolumeFile",
        List(&Struct(&DOWNWARD_API_VOLUME_FILE)),
    )],
};

pub static DOWNWARD_API_VOLUME_FILE: Layout = Layout {
    fields: &[
        field("Path", "path", "string", Str),
        field("FieldRef", "fieldRef", "*core.ObjectFieldSelector", Pointer(&Struct(&OBJECT_FIELD_SELECTOR))),
        field(
            "ResourceFieldRef",
            "resourceFieldRef",
            "*core.ResourceFieldSelector",
            Pointer(&Struct(&RESOURCE_FIELD_SELECTOR)),
        ),
        field("Mode", "mode", "*int32", Pointer(&Int)),
    ],
};

pub static DOWNWARD_API_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("Items", "items", "[]core.DownwardAPIVolumeFile", List(&Struct(&DOWNWARD_API_VOLUME_FILE))),
        field("DefaultMode", "defaultMode", "*int32", Pointer(&Int)),
    ],
};

pub static EMPTY_DIR_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("Medium", "medium", "core.StorageMedium", Str),
        field("SizeLimit", "sizeLimit", "*resource.Quantity", Pointer(&Quantity)),
    ],
};

pub static EPHEMERAL_VOLUME_SOURCE: Layout = Layout {
    fields: &[field(
        "VolumeClaimTemplate",
        "volumeClaimTemplate",
        "*core.PersistentVolumeClaimTemplate",
        Pointer(&Struct(&PERSISTENT_VOLUME_CLAIM_TEMPLATE)),
    )],
};

pub static FC_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("TargetWWNs", "targetWWNs", "[]string", List(&Str)),
        field("Lun", "lun", "*int32", Pointer(&Int)),
        field("FSType", "fsType", "string", Str),
        field("ReadOnly", "readOnly", "bool", Bool),
        field("WWIDs", "wwids", "[]string", List(&Str)),
    ],
};

pub static FLEX_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("Driver", "driver", "string", Str),
        field("FSType", "fsType", "string", Str),
        field(
            "SecretRef",
            "secretRef",
            "*core.LocalObjectReference",
            Pointer(&Struct(&LOCAL_OBJECT_REFERENCE)),
        ),
        field("ReadOnly", "readOnly", "bool", Bool),
        field("Options", "options", "map[string]string", Map(&Str)),
    ],
};

pub static FLOCKER_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("DatasetName", "datasetName", "string", Str),
        field("DatasetUUID", "datasetUUID", "string", Str),
    ],
};

pub static GCE_PERSISTENT_DISK_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("PDName", "pdName", "string", Str),
        field("FSType", "fsType", "string", Str),
        field("Partition", "partition", "int32", Int),
        field("ReadOnly", "readOnly", "bool", Bool),
    ],
};

pub static GIT_REPO_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("Repository", "repository", "string", Str),
        field("Revision", "revision", "string", Str),
        field("Directory", "directory", "string", Str),
    ],
};

pub static GLUSTERFS_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("EndpointsName", "endpoints", "string", Str),
        field("Path", "path", "string", Str),
        field("ReadOnly", "readOnly", "bool", Bool),
    ],
};

pub static HOST_PATH_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("Path", "path", "string", Str),
        field("Type", "type", "*core.HostPathType", Pointer(&Str)),
    ],
};

pub static ISCSI_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("TargetPortal", "targetPortal", "string", Str),
        field("IQN", "iqn", "string", Str),
        field("Lun", "lun", "int32", Int),
        field("ISCSIInterface", "iscsiInterface", "string", Str),
        field("FSType", "fsType", "string", Str),
        field("ReadOnly", "readOnly", "bool", Bool),
        field("Portals", "portals", "[]string", List(&Str)),
        field("DiscoveryCHAPAuth", "chapAuthDiscovery", "bool", Bool),
        field("SessionCHAPAuth", "chapAuthSession", "bool", Bool),
        field(
            "SecretRef",
            "secretRef",
            "*core.LocalObjectReference",
            Pointer(&Struct(&LOCAL_OBJECT_REFERENCE)),
        ),
        field("InitiatorName", "initiatorName", "*string", Pointer(&Str)),
    ],
};

pub static IMAGE_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("Reference", "reference", "string", Str),
        field("PullPolicy", "pullPolicy", "core.PullPolicy", Str),
    ],
};

pub static KEY_TO_PATH: Layout = Layout {
    fields: &[
        field("Key", "key", "string", Str),
        field("Path", "path", "string", Str),
        field("Mode", "mode", "*int32", Pointer(&Int)),
    ],
};

pub static NFS_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("Server", "server", "string", Str),
        field("Path", "path", "string", Str),
        field("ReadOnly", "readOnly", "bool", Bool),
    ],
};

pub static PERSISTENT_VOLUME_CLAIM_SPEC: Layout = Layout {
    fields: &[
        field("AccessModes", "accessModes", "[]core.PersistentVolumeAccessMode", List(&Str)),
        field("Selector", "selector", "*v1.LabelSelector", Pointer(&Struct(&LABEL_SELECTOR))),
        field(
            "Resources",
            "resources",
            "core.VolumeResourceRequirements",
            Struct(&VOLUME_RESOURCE_REQUIREMENTS),
        )
        .since(29),
        field("Resources", "resources", "core.ResourceRequirements", Struct(&RESOURCE_REQUIREMENTS))
            .until(29),
        field("VolumeName", "volumeName", "string", Str),
        field("StorageClassName", "storageClassName", "*string", Pointer(&Str)),
        field("VolumeMode", "volumeMode", "*core.PersistentVolumeMode", Pointer(&Str)),
        field(
            "DataSource",
            "dataSource",
            "*core.TypedLocalObjectReference",
            Pointer(&Struct(&TYPED_LOCAL_OBJECT_REFERENCE)),
        ),
        field(
            "DataSourceRef",
            "dataSourceRef",
            "*core.TypedObjectReference",
            Pointer(&Struct(&TYPED_OBJECT_REFERENCE)),
        ),
        field("VolumeAttributesClassName", "volumeAttributesClassName", "*string", Pointer(&Str)).since(29),
    ],
};

pub static PERSISTENT_VOLUME_CLAIM_TEMPLATE: Layout = Layout {
    fields: &[
        field("ObjectMeta", "metadata", "v1.ObjectMeta", Struct(&OBJECT_META)),
        field("Spec", "spec", "core.PersistentVolumeClaimSpec", Struct(&PERSISTENT_VOLUME_CLAIM_SPEC)),
    ],
};

pub static PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE: Layout = Layout {
    fields: &[field("ClaimName", "claimName", "string", Str), field("ReadOnly", "readOnly", "bool", Bool)],
};

pub static PHOTON_PERSISTENT_DISK_VOLUME_SOURCE: Layout =
    Layout { fields: &[field("PdID", "pdID", "string", Str), field("FSType", "fsType", "string", Str)] };

pub static POD_CERTIFICATE_PROJECTION: Layout = Layout {
    fields: &[
        field("SignerName", "signerName", "string", Str),
        field("KeyType", "keyType", "string", Str),
        field("MaxExpirationSeconds", "maxExpirationSeconds", "*int32", Pointer(&Int)),
        field("CredentialBundlePath", "credentialBundlePath", "string", Str),
        field("KeyPath", "keyPath", "string", Str),
        field("CertificateChainPath", "certificateChainPath", "string", Str),
        field("UserAnnotations", "userAnnotations", "map[string]string", Map(&Str)).since(35),
    ],
};

pub static PORTWORX_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("VolumeID", "volumeID", "string", Str),
        field("FSType", "fsType", "string", Str),
        field("ReadOnly", "readOnly", "bool", Bool),
    ],
};

pub static PROJECTED_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("Sources", "sources", "[]core.VolumeProjection", List(&Struct(&VOLUME_PROJECTION))),
        field("DefaultMode", "defaultMode", "*int32", Pointer(&Int)),
    ],
};

pub static QUOBYTE_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("Registry", "registry", "string", Str),
        field("Volume", "volume", "string", Str),
        field("ReadOnly", "readOnly", "bool", Bool),
        field("User", "user", "string", Str),
        field("Group", "group", "string", Str),
        field("Tenant", "tenant", "string", Str),
    ],
};

pub static RBD_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("CephMonitors", "monitors", "[]string", List(&Str)),
        field("RBDImage", "image", "string", Str),
        field("FSType", "fsType", "string", Str),
        field("RBDPool", "pool", "string", Str),
        field("RadosUser", "user", "string", Str),
        field("Keyring", "keyring", "string", Str),
        field(
            "SecretRef",
            "secretRef",
            "*core.LocalObjectReference",
            Pointer(&Struct(&LOCAL_OBJECT_REFERENCE)),
        ),
        field("ReadOnly", "readOnly", "bool", Bool),
    ],
};

pub static SCALE_IO_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("Gateway", "gateway", "string", Str),
        field("System", "system", "string", Str),
        field(
            "SecretRef",
            "secretRef",
            "*core.LocalObjectReference",
            Pointer(&Struct(&LOCAL_OBJECT_REFERENCE)),
        ),
        field("SSLEnabled", "sslEnabled", "bool", Bool),
        field("ProtectionDomain", "protectionDomain", "string", Str),
        field("StoragePool", "storagePool", "string", Str),
        field("StorageMode", "storageMode", "string", Str),
        field("VolumeName", "volumeName", "string", Str),
        field("FSType", "fsType", "string", Str),
        field("ReadOnly", "readOnly", "bool", Bool),
    ],
};

pub static SECRET_PROJECTION: Layout = Layout {
    fields: &[
        inline("LocalObjectReference", "core.LocalObjectReference", Struct(&LOCAL_OBJECT_REFERENCE)),
        field("Items", "items", "[]core.KeyToPath", List(&Struct(&KEY_TO_PATH))),
        field("Optional", "optional", "*bool", Pointer(&Bool)),
    ],
};

pub static SECRET_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("SecretName", "secretName", "string", Str),
        field("Items", "items", "[]core.KeyToPath", List(&Struct(&KEY_TO_PATH))),
        field("DefaultMode", "defaultMode", "*int32", Pointer(&Int)),
        field("Optional", "optional", "*bool", Pointer(&Bool)),
    ],
};

pub static SERVICE_ACCOUNT_TOKEN_PROJECTION: Layout = Layout {
    fields: &[
        field("Audience", "audience", "string", Str),
        field("ExpirationSeconds", "expirationSeconds", "int64", Int),
        field("Path", "path", "string", Str),
    ],
};

pub static STORAGE_OS_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("VolumeName", "volumeName", "string", Str),
        field("VolumeNamespace", "volumeNamespace", "string", Str),
        field("FSType", "fsType", "string", Str),
        field("ReadOnly", "readOnly", "bool", Bool),
        field(
            "SecretRef",
            "secretRef",
            "*core.LocalObjectReference",
            Pointer(&Struct(&LOCAL_OBJECT_REFERENCE)),
        ),
    ],
};

pub static TYPED_LOCAL_OBJECT_REFERENCE: Layout = Layout {
    fields: &[
        field("APIGroup", "apiGroup", "*string", Pointer(&Str)),
        field("Kind", "kind", "string", Str),
        field("Name", "name", "string", Str),
    ],
};

pub static TYPED_OBJECT_REFERENCE: Layout = Layout {
    fields: &[
        field("APIGroup", "apiGroup", "*string", Pointer(&Str)),
        field("Kind", "kind", "string", Str),
        field("Name", "name", "string", Str),
        field("Namespace", "namespace", "*string", Pointer(&Str)),
    ],
};

pub static VOLUME: Layout = Layout {
    fields: &[
        field("Name", "name", "string", Str),
        inline("VolumeSource", "core.VolumeSource", Struct(&VOLUME_SOURCE)),
    ],
};

pub static VOLUME_PROJECTION: Layout = Layout {
    fields: &[
        field("Secret", "secret", "*core.SecretProjection", Pointer(&Struct(&SECRET_PROJECTION))),
        field(
            "DownwardAPI",
            "downwardAPI",
            "*core.DownwardAPIProjection",
            Pointer(&Struct(&DOWNWARD_API_PROJECTION)),
        ),
        field(
            "ConfigMap",
            "configMap",
            "*core.ConfigMapProjection",
            Pointer(&Struct(&CONFIG_MAP_PROJECTION)),
        ),
        field(
            "ServiceAccountToken",
            "serviceAccountToken",
            "*core.ServiceAccountTokenProjection",
            Pointer(&Struct(&SERVICE_ACCOUNT_TOKEN_PROJECTION)),
        ),
        field(
            "ClusterTrustBundle",
            "clusterTrustBundle",
            "*core.ClusterTrustBundleProjection",
            Pointer(&Struct(&CLUSTER_TRUST_BUNDLE_PROJECTION)),
        )
        .since(29),
        field(
            "PodCertificate",
            "podCertificate",
            "*core.PodCertificateProjection",
            Pointer(&Struct(&POD_CERTIFICATE_PROJECTION)),
        )
        .since(34),
    ],
};

pub static VOLUME_RESOURCE_REQUIREMENTS: Layout = Layout {
    fields: &[
        field("Limits", "limits", "core.ResourceList", Map(&Quantity)),
        field("Requests", "requests", "core.ResourceList", Map(&Quantity)),
    ],
};

pub static VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field(
            "HostPath",
            "hostPath",
            "*core.HostPathVolumeSource",
            Pointer(&Struct(&HOST_PATH_VOLUME_SOURCE)),
        ),
        field(
            "EmptyDir",
            "emptyDir",
            "*core.EmptyDirVolumeSource",
            Pointer(&Struct(&EMPTY_DIR_VOLUME_SOURCE)),
        ),
        field(
            "GCEPersistentDisk",
            "gcePersistentDisk",
            "*core.GCEPersistentDiskVolumeSource",
            Pointer(&Struct(&GCE_PERSISTENT_DISK_VOLUME_SOURCE)),
        ),
        field(
            "AWSElasticBlockStore",
            "awsElasticBlockStore",
            "*core.AWSElasticBlockStoreVolumeSource",
            Pointer(&Struct(&AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE)),
        ),
        field("GitRepo", "gitRepo", "*core.GitRepoVolumeSource", Pointer(&Struct(&GIT_REPO_VOLUME_SOURCE))),
        field("Secret", "secret", "*core.SecretVolumeSource", Pointer(&Struct(&SECRET_VOLUME_SOURCE))),
        field("NFS", "nfs", "*core.NFSVolumeSource", Pointer(&Struct(&NFS_VOLUME_SOURCE))),
        field("ISCSI", "iscsi", "*core.ISCSIVolumeSource", Pointer(&Struct(&ISCSI_VOLUME_SOURCE))),
        field(
            "Glusterfs",
            "glusterfs",
            "*core.GlusterfsVolumeSource",
            Pointer(&Struct(&GLUSTERFS_VOLUME_SOURCE)),
        ),
        field(
            "PersistentVolumeClaim",
            "persistentVolumeClaim",
            "*core.PersistentVolumeClaimVolumeSource",
            Pointer(&Struct(&PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE)),
        ),
        field("RBD", "rbd", "*core.RBDVolumeSource", Pointer(&Struct(&RBD_VOLUME_SOURCE))),
        field("Quobyte", "quobyte", "*core.QuobyteVolumeSource", Pointer(&Struct(&QUOBYTE_VOLUME_SOURCE))),
        field("FlexVolume", "flexVolume", "*core.FlexVolumeSource", Pointer(&Struct(&FLEX_VOLUME_SOURCE))),
        field("Cinder", "cinder", "*core.CinderVolumeSource", Pointer(&Struct(&CINDER_VOLUME_SOURCE))),
        field("CephFS", "cephfs", "*core.CephFSVolumeSource", Pointer(&Struct(&CEPH_FS_VOLUME_SOURCE))),
        field("Flocker", "flocker", "*core.FlockerVolumeSource", Pointer(&Struct(&FLOCKER_VOLUME_SOURCE))),
        field(
            "DownwardAPI",
            "downwardAPI",
            "*core.DownwardAPIVolumeSource",
            Pointer(&Struct(&DOWNWARD_API_VOLUME_SOURCE)),
        ),
        field("FC", "fc", "*core.FCVolumeSource", Pointer(&Struct(&FC_VOLUME_SOURCE))),
        field(
            "AzureFile",
            "azureFile",
            "*core.AzureFileVolumeSource",
            Pointer(&Struct(&AZURE_FILE_VOLUME_SOURCE)),
        ),
        field(
            "ConfigMap",
            "configMap",
            "*core.ConfigMapVolumeSource",
            Pointer(&Struct(&CONFIG_MAP_VOLUME_SOURCE)),
        ),
        field(
            "VsphereVolume",
            "vsphereVolume",
            "*core.VsphereVirtualDiskVolumeSource",
            Pointer(&Struct(&VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE)),
        ),
        field(
            "AzureDisk",
            "azureDisk",
            "*core.AzureDiskVolumeSource",
            Pointer(&Struct(&AZURE_DISK_VOLUME_SOURCE)),
        ),
        field(
            "PhotonPersistentDisk",
            "photonPersistentDisk",
            "*core.PhotonPersistentDiskVolumeSource",
            Pointer(&Struct(&PHOTON_PERSISTENT_DISK_VOLUME_SOURCE)),
        ),
        field(
            "Projected",
            "projected",
            "*core.ProjectedVolumeSource",
            Pointer(&Struct(&PROJECTED_VOLUME_SOURCE)),
        ),
        field(
            "PortworxVolume",
            "portworxVolume",
            "*core.PortworxVolumeSource",
            Pointer(&Struct(&PORTWORX_VOLUME_SOURCE)),
        ),
        field("ScaleIO", "scaleIO", "*core.ScaleIOVolumeSource", Pointer(&Struct(&SCALE_IO_VOLUME_SOURCE))),
        field(
            "StorageOS",
            "storageos",
            "*core.StorageOSVolumeSource",
            Pointer(&Struct(&STORAGE_OS_VOLUME_SOURCE)),
        ),
        field("CSI", "csi", "*core.CSIVolumeSource", Pointer(&Struct(&CSI_VOLUME_SOURCE))),
        field(
            "Ephemeral",
            "ephemeral",
            "*core.EphemeralVolumeSource",
            Pointer(&Struct(&EPHEMERAL_VOLUME_SOURCE)),
        ),
        field("Image", "image", "*core.ImageVolumeSource", Pointer(&Struct(&IMAGE_VOLUME_SOURCE))).since(31),
    ],
};

pub static VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE: Layout = Layout {
    fields: &[
        field("VolumePath", "volumePath", "string", Str),
        field("FSType", "fsType", "string", Str),
        field("StoragePolicyName", "storagePolicyName", "string", Str),
        field("StoragePolicyID", "storagePolicyID", "string", Str),
    ],
};
