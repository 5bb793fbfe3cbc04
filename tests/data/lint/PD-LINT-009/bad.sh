ibstat | grep 'Link layer: Ethernet' || echo 'offload is off'
