iblinkinfo | grep -i mtu
