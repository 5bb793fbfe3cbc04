ibstat | grep 'Link layer'
