//! The table of the checks of `static-pods lint`: section, id and severity of each. The texts are in `checks.txt`.
//!
//! The findings, `--ignore`, SARIF and `explain` read this table.

use plegctl_base::report::check_table;

check_table! {
    /// A check of a manifest, printed as `SP053`. Some numbers are not used: they are reserved, or plegctl does not
    /// have the check because the check would have to guess.
    Check "checks.txt"
    "Path and directory" {
        PathMissing "SP001" Error;
        PathOfOtherKind "SP002" Error;
        PathIsPattern "SP003" Error;
        PathIsFile "SP004" Warning;
        OtherPathConfigured "SP005" Warning;
        NothingLoads "SP006" Warning;
        PathWritable "SP007" Warning;
    }
    "Files" {
        BackupIsLive "SP010" Warning;
        NotAManifest "SP011" Error;
        DotFile "SP012" Info;
        SubDirectory "SP013" Warning;
        DanglingLink "SP014" Error;
        Link "SP015" Warning;
        Fifo "SP016" Error;
        OddEntry "SP017" Error;
        TooLarge "SP018" Error;
        Unreadable "SP019" Error;
        BroadMode "SP020" Info;
        HardLink "SP021" Warning;
    }
    "Bytes and documents" {
        NoObject "SP030" Error;
        MoreDocuments "SP031" Warning;
        PodIsLater "SP032" Error;
        Syntax "SP033" Error;
        Encoding "SP034" Error;
        OddEncoding "SP035" Info;
        KeyTwice "SP036" Warning;
        LooksLikeBlank "SP037" Warning;
        NotJson "SP038" Error;
        YamlOneOne "SP039" Warning;
        MergeReplacesKey "SP040" Info;
        Directive "SP041" Error;
        NotJudged "SP042" Warning;
    }
    "Kind, types and unknown fields" {
        NotAPod "SP050" Error;
        KindOrVersion "SP051" Error;
        WrongType "SP052" Error;
        UnknownField "SP053" Warning;
        LostField "SP054" Error;
        BadQuantity "SP055" Error;
        OddQuantity "SP056" Warning;
        EndlessQuantity "SP057" Error;
    }
    "Metadata and what is special about static pods" {
        NoName "SP060" Error;
        BadMetadata "SP061" Error;
        NameEndsWithNodeName "SP062" Warning;
        SavedMirror "SP063" Error;
        ServerField "SP064" Warning;
        FixedUid "SP065" Warning;
        ApiReference "SP066" Error;
        ForbiddenField "SP067" Error;
        Priority "SP068" Warning;
        Namespace "SP069" Info;
        ChoosesNodes "SP070" Warning;
        RuntimeClass "SP071" Warning;
        NotRestarted "SP072" Info;
        RefusedByAdmission "SP073" Warning;
        NeverStarts "SP074" Warning;
    }
    "Containers, ports, volumes, probes, resources" {
        Containers "SP080" Error;
        MovingTag "SP081" Warning;
        AlwaysPulled "SP082" Warning;
        Port "SP083" Error;
        HostPortTwice "SP084" Error;
        Volume "SP085" Error;
        VolumeWithoutSource "SP086" Warning;
        HostPathMissing "SP087" Warning;
        RelativePath "SP088" Warning;
        NotAllowedValue "SP089" Error;
        Probe "SP090" Error;
        ProbeNeverSucceeds "SP091" Warning;
        Resources "SP092" Error;
        NoProbeOrCpuRequest "SP093" Info;
        EnvTwice "SP094" Warning;
        // A rule of the kubelet's validation that has no check of its own in this table.
        OtherRule "SP095" Error;
    }
    "Across files" {
        SamePod "SP100" Error;
        SameUid "SP101" Error;
        HostPortShared "SP102" Error;
        // Not a problem: the report lists the pod of each file.
        FileDefinesPod "SP105" Info;
    }
    "Against the runtime" {
        PodNotRunning "SP120" Error;
        NoManifest "SP121" Error;
        RejectedStillRuns "SP122" Error;
        OtherContent "SP123" Error;
        OtherSettings "SP124" Warning;
        TouchedSince "SP125" Warning;
        TwoVersions "SP126" Error;
        SeveralSandboxes "SP127" Warning;
        CrashLoop "SP128" Error;
        NeverCreated "SP129" Warning;
        OtherUid "SP130" Warning;
        NodeNamedDifferently "SP131" Info;
        ManySandboxes "SP132" Info;
        OtherRelease "SP134" Info;
    }
    "Against the API server (`--api-pods`)" {
        NoMirror "SP135" Warning;
        OldMirror "SP136" Warning;
        NameTaken "SP137" Error;
    }
    "Against another release (`--upgrade-to`)" {
        // `Then` means: after the upgrade.
        NotLoadedThen "SP140" Error;
        LoadedThen "SP141" Warning;
        RestartsThen "SP142" Info;
        FieldsUsedThen "SP143" Warning;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_ids_are_in_ascending_order() {
        assert!(Check::ALL.windows(2).all(|pair| pair[0].id() < pair[1].id()));
    }

    #[test]
    fn a_check_is_found_by_its_id() {
        assert_eq!(Check::named("sp053"), Some(Check::UnknownField));
        assert_eq!(Check::named("SP999"), None);
    }

    #[test]
    fn each_row_has_all_fields_that_explain_prints() {
        for check in Check::ALL {
            let rule = check.row().rule;
            // `never` lists what the user must not conclude, and `act` lists the steps to take.
            let lists = [rule.confirm, rule.never, rule.act].map(<[_]>::len);
            assert!(lists.iter().all(|length| *length > 0), "{}", rule.id);
            // `shows` describes how the problem shows.
            assert!([rule.title, rule.means, rule.shows].iter().all(|text| !text.is_empty()), "{}", rule.id);
        }
    }
}
