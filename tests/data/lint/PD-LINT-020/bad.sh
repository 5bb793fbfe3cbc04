echo 'net.core.rmem_max=268435456' > /etc/sysctl.conf
