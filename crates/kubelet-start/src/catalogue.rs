//! The table of what keeps a kubelet from starting: the section, the id and the severity of each check; its texts are in
//! `checks.txt`. Findings, `--ignore`, SARIF, `explain` and the manual read this table.

use plegctl_base::report::check_table;

check_table! {
    /// A check of what a kubelet needs to start, printed as `KP001`. Missing numbers are reserved.
    StartCheck "checks.txt"
    "Command line" {
        UnknownFlag "KP001" Error;
        RemovedFlag "KP002" Error;
        DeprecatedFlag "KP003" Info;
        BadFlagValue "KP004" Error;
        StrayArgument "KP005" Error;
    }
    "Feature gates" {
        UnknownGate "KP010" Error;
        RemovedGate "KP011" Error;
        LockedGate "KP012" Error;
        EndingGate "KP013" Info;
        GateNotKnownHere "KP014" Warning;
        GateNeedsGate "KP015" Error;
    }
    "Configuration file" {
        ConfigUnreadable "KP020" Error;
        ConfigNotYaml "KP021" Error;
        ConfigOfOtherKind "KP022" Error;
        WrongType "KP023" Error;
        UnknownConfigField "KP024" Warning;
        RepeatedKey "KP025" Warning;
    }
    "Values" {
        ValueRefused "KP030" Error;
        ValuesContradict "KP031" Error;
        NeedsGate "KP032" Error;
        RefusedAtStart "KP033" Error;
        ValueIgnored "KP034" Warning;
    }
    "Cgroups" {
        CgroupV1 "KP040" Error;
        ReservedCgroupMissing "KP042" Error;
    }
    "Runtime" {
        RuntimeSocketMissing "KP050" Error;
        CriNotServed "KP051" Error;
        CriPluginDisabled "KP052" Error;
        ContainerdConfigBroken "KP053" Error;
        InotifyUsedUp "KP054" Error;
        CgroupDrivers "KP055" Warning;
        RuntimeConfigMissing "KP056" Error;
        ImageServiceMissing "KP057" Error;
        CredentialProviders "KP058" Error;
    }
    "Certificates" {
        CertificateExpired "KP060" Error;
        CertificateNotYetValid "KP061" Error;
        CertificateExpiresSoon "KP062" Warning;
        CertificateMissing "KP063" Error;
        KeyOfOtherCertificate "KP064" Error;
        CertificateOfOtherName "KP067" Warning;
        KubeconfigMissing "KP068" Error;
    }
    "Node" {
        SwapOn "KP070" Error;
        KernelSetting "KP071" Error;
        PortTaken "KP072" Error;
        NodeIpNotHere "KP073" Warning;
        RootIsNoDirectory "KP074" Error;
        LockFileHeld "KP075" Error;
        DiskFull "KP076" Error;
        SubordinateIds "KP079" Error;
    }
    "Static pods" {
        StaticPodRefused "KP080" Error;
        StaticPodsRestart "KP081" Info;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_in_the_order_of_their_numbers_and_have_every_text() {
        let ids: Vec<&str> = StartCheck::ALL.iter().map(|check| check.id()).collect();
        assert!(ids.is_sorted() && ids.windows(2).all(|two| two[0] != two[1]), "{ids:?}");
        for check in StartCheck::ALL {
            let rule = check.row().rule;
            assert_eq!(StartCheck::named(&rule.id.to_lowercase()), Some(*check));
            let lists = [rule.confirm, rule.never, rule.act];
            assert!(lists.iter().all(|list| !list.is_empty()), "{check}");
            assert!([rule.title, rule.means, rule.shows].iter().all(|text| !text.is_empty()), "{check}");
        }
    }
}
