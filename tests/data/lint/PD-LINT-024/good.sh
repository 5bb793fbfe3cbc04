mlnx_qos -i ens4f0np0 --pfc 0,0,0,1,0,0,0,0
dcb pfc set dev ens4f0np0 prio-pfc all:off 3:on
