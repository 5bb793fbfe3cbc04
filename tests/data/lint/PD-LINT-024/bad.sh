mlnx_qos -i ens4f0np0 --pfc 1,1,1,1,1,1,1,1
dcb pfc set dev ens4f0np0 prio-pfc all:on
